#!/usr/bin/env bash
# Installs what the Slurm tests need where it is missing (Debian, Ubuntu; as root), and shows that a controller starts.
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
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "Slurm tests will be skipped: install slurm-wlm, munge and shellcheck as root"
        exit 0
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -y -q --no-install-recommends slurm-wlm munge shellcheck
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
