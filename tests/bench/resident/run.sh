#!/usr/bin/env bash
# What the plugin adds to a rank's memory: resident.py tells.   run.sh BUILD_FOLDER [PAIRS]
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$(dirname "${BASH_SOURCE[0]}")/resident.py" "$@"
