#!/usr/bin/env bash
# Checks the job scripts and shows that a Slurm controller starts; where there is none (.ci/run installs it) it says so.
# The tests start and stop controllers of their own; nothing keeps running after this script.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
PATH=$PATH:/usr/sbin:/usr/local/sbin
for program in munged slurmctld slurmd sbatch; do
    command -v "$program" >/dev/null || missing+=("$program")
done
command -v shellcheck >/dev/null || missing+=(shellcheck)
if [ ${#missing[@]} -gt 0 ]; then
    echo "Slurm tests: missing ${missing[*]}"
    echo "Slurm tests will be skipped: install slurm-wlm, munge and shellcheck as root"
    exit 0
fi
shellcheck -x slurm/*.sbatch slurm/common.sh .ci/run .ci/slurm.sh
"${PYTHON:-python3}" - <<'END'
import sys, tempfile
from pathlib import Path

sys.path.insert(0, "tests")
from slurm_controller import cluster

with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as slurm:
    print(slurm.run("sinfo", "--version").strip(), "-", slurm.run("sinfo", "-N", "-h").strip())
END
