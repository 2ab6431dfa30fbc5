#!/usr/bin/env bash
# Proves that every benchmark runs and gives the figures that its goals want, on few rounds. Which goals hold is
# not asked: a test that times passes or fails by what else runs. usage: bench_run_test.sh BUILD_FOLDER
set -euo pipefail
runner=$(dirname "${BASH_SOURCE[0]}")/../bench/run.sh
figures=$(mktemp)
trap 'rm -f "$figures"' EXIT
status=0
output=$("$runner" --quick --no-build --build "$1" --json "$figures") || status=$?
echo "$output"
if [[ $status -gt 1 || $output == *"failed  "* || $output == *"gave no such figure"* ]]; then
  echo "WRONG: status $status, or a benchmark that did not run to its figures"
  exit 1
fi
wanted=$("$runner" --list | grep -c '^[^ ]')
got=$(python3 -c 'import json, sys; print(sum(1 for b in json.load(open(sys.argv[1]))["benchmarks"] if b["result"] is not None))' "$figures")
if [[ $got != "$wanted" ]]; then
  echo "WRONG: figures of $got benchmarks, of $wanted in the table"
  exit 1
fi
