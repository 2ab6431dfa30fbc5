#!/usr/bin/env bash
# Proves that tests/bench/run.sh runs what it is told, judges goals and refuses what it does not know, on a
# table of its own, and that every folder of tests/bench has its row. usage: bench_runner_test.sh SOURCE_ROOT
set -euo pipefail
root=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
wrong=0
runner=$root/tests/bench/run.sh

# expect CASE STATUS TEXT ARGUMENTS...: the exit status, and a text that the output holds.
expect() {
  local name=$1 status=$2 text=$3 got=0 output
  shift 3
  output=$("$runner" "$@" 2>&1) || got=$?
  if [[ $got == "$status" && $output == *"$text"* ]]; then
    echo "ok: $name"
  else
    printf "WRONG: %s: status %s, expected %s and '%s' in\n%s\n" "$name" "$got" "$status" "$text" "$output"
    wrong=1
  fi
}

for folder in "$root"/tests/bench/*/; do
  name=$(basename "$folder")
  [[ $name != __pycache__ ]] || continue
  expect "$name has a row" 0 "" --list --only "$name"
done

cat >"$place/table.py" <<'PYTHON'
import types

def row(name, words, goals=()):
    quick = ["echo", '{"figure": 7}']
    return types.SimpleNamespace(name=name, targets=[], command=words, quick=quick, goals=list(goals))

def goal(relation, limit, key="figure"):
    figure = lambda result: result[key]
    return types.SimpleNamespace(text="a figure", unit="ms", figure=figure, relation=relation, limit=limit)

BENCHMARKS = [
    row("good", ["sh", "-c", "echo '{\"figure\": 1}'; exit 1"], [goal("<", 2), goal(">=", 1)]),
    row("slow", ["echo", '{"figure": 2}'], [goal("<", 2)]),
    row("lacking", ["echo", '{"figure": 2}'], [goal("<", 2, "another")]),
    row("broken", ["echo", "no figures"]),
    row("absent", ["{build}/no-such-program"]),
    row("plain", ["echo", '{"figure": 3}']),
]
PYTHON
own=(--table "$place/table.py" --no-build --build "$place")
expect "goals that are held" 0 "held    good       a figure: 1.000 ms (goal < 2)" "${own[@]}" --only good
expect "a goal that is missed" 1 "missed  slow       a figure: 2.000 ms (goal < 2)" "${own[@]}" --only slow
expect "a figure that is not there" 1 "missed  lacking    a figure: the benchmark gave no such figure" \
  "${own[@]}" --only lacking
expect "no JSON" 1 "failed  broken     echo no figures: status 0, printed no JSON" "${own[@]}" --only broken
expect "no program" 1 "failed  absent     cannot run:" "${own[@]}" --only absent
expect "no goal" 0 '-       plain      {"figure": 3}' "${own[@]}" --only plain
expect "quick" 1 "missed  slow       a figure: 7.000 ms (goal < 2)" "${own[@]}" --only slow --quick
expect "all, one failed" 1 "held    good" "${own[@]}"
grep -q '"name": "plain"' "$place/bench.json" || { echo "WRONG: bench.json lacks a benchmark" && wrong=1; }
expect "an unknown name" 2 "there is no benchmark 'x'; allowed: good, slow" "${own[@]}" --only x
expect "an unknown argument" 2 "unrecognized arguments: --frob" --frob
expect "a shortened one" 2 "unrecognized arguments: --lis" --lis
expect "no folder for the figures" 2 "there is no folder '$place/none'" "${own[@]}" --only plain \
  --json "$place/none/f.json"
expect "no build folder" 2 "'$place' is no build folder" --build "$place" --only preload
exit $wrong
