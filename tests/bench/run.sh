#!/usr/bin/env bash
# Every benchmark of this folder in one command: builds what it needs, runs each beside its peer, prints a
# table of goals and writes all figures as JSON. tests/bench/run.sh --help
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$(dirname "${BASH_SOURCE[0]}")/runner.py" "$@"
