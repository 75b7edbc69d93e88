# shellcheck shell=bash
# What the job scripts share; they source it. Needs AEG_HOME, the folder of the code (a snapshot, or a checkout).

set -u
AEG_PYTHON=${AEG_PYTHON:-python}   # the interpreter of the environment that has the package
AEG_SITE=${AEG_SITE:-}             # a file to source first: module loads, activation of an environment, scratch space
AEG_CONTAINER=${AEG_CONTAINER:-}   # an apptainer image to run Python in
AEG_DOCTOR=${AEG_DOCTOR:-1}        # 0: no look at the node before the work begins

if [ -n "$AEG_SITE" ]; then
    # shellcheck disable=SC1090
    . "$AEG_SITE"
fi
# The code that runs is AEG_HOME's, whatever lies in the working folder.
export PYTHONPATH="$AEG_HOME/plugins:$AEG_HOME${PYTHONPATH:+:$PYTHONPATH}" PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1

# This job's name for scontrol: an array's element by its own number, as the bare number can mean the whole array.
AEG_JOB=${SLURM_JOB_ID:-0}
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    AEG_JOB=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
fi

# How Python is started, as one command and not a function: a signal must reach the process itself.
AEG_RUN=("$AEG_PYTHON")
if [ -n "$AEG_CONTAINER" ]; then
    AEG_RUN=(apptainer exec --nv "$AEG_CONTAINER" "$AEG_PYTHON")
fi

aeg_say() { printf '[job %s, %s] %s\n' "$AEG_JOB" "$(date '+%F %T')" "$*" >&2; }

aeg_state() { scontrol show job "$AEG_JOB" --oneliner 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | head -n 1; }

# Look at the node: what the config needs must be there. Passed over where the code has no such command.
aeg_doctor() {
    local config=$AEG_WHAT code
    [ -d "$config" ] && config=$AEG_WHAT/task-${SLURM_ARRAY_TASK_ID:-0}.yaml
    [ "$AEG_DOCTOR" = 0 ] && return 0
    [ -d "$AEG_WHAT" ] && [ ! -f "$config" ] && return 0
    "${AEG_RUN[@]}" -m aeg doctor --help >/dev/null 2>&1 || return 0
    "${AEG_RUN[@]}" -m aeg doctor "$config" "$@"
    code=$?
    [ "$code" = 0 ] || aeg_say "the node lacks what the config needs (see above; AEG_DOCTOR=0 goes on all the same)"
    return "$code"
}

# Put the job back into the queue. Not if it was cancelled, or is being requeued by Slurm itself: then it does not run.
aeg_requeue() {
    local state
    state=$(aeg_state)
    if [ "$state" != RUNNING ]; then
        aeg_say "not requeued from here: its state is ${state:-unknown}"
        return 1
    fi
    aeg_say "saved; goes back into the queue"
    scontrol requeue "$AEG_JOB" && sleep 120 # Slurm ends this script
}

# Pass a signal on as SIGTERM: to the process; where srun started it, to the tasks, as srun itself would kill them.
aeg_stop() {
    if [ "$1" = srun ]; then
        scancel --signal=TERM "$AEG_JOB"
    else
        kill -TERM "$2" 2>/dev/null
    fi
}

# Run a command so that SIGUSR1 (before the time limit) and SIGTERM (pre-emption) reach it as SIGTERM: it saves and ends,
# and the job is requeued. Otherwise its exit code is returned.
aeg_run() {
    local stopped="" code=0 last program=$1
    "$@" &
    local child=$!
    trap 'stopped=1; aeg_say "asked to stop"; aeg_stop "$program" "$child"' USR1 TERM
    while kill -0 "$child" 2>/dev/null; do
        wait "$child"
        code=$?
    done
    wait "$child" 2>/dev/null # a signal may have ended the wait above, not the command
    last=$?
    [ "$last" -ne 127 ] && code=$last
    trap '' USR1 TERM
    if [ -n "$stopped" ] && [ "$code" -ne 0 ]; then
        aeg_requeue
    fi
    trap - USR1 TERM
    return "$code"
}
