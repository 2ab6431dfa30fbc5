#!/usr/bin/env bash
# Build trees and their ctest runs. Sourced by tests/run.sh; needs report.sh, $jobs, $results.
: "${jobs:?source this from tests/run.sh}" "${results:?source this from tests/run.sh}"

# The folder of a preset: ci builds the main tree.
tree_of() { if [[ $1 == ci ]]; then echo build/dev; else echo "build/$1"; fi; }

build_tree() {
  local preset=$1
  check "configure $preset" cmake --preset "$preset" || return 0
  check "build $preset" cmake --build --preset "$preset" -j "$jobs" || return 0
}

# test_tree PRESET [CTEST ARGUMENTS]: every case of the tree is one outcome.
test_tree() {
  local preset=$1 tree junit log names kind name reason expected
  shift
  tree=$(tree_of "$preset")
  junit=$PWD/$results/$preset.xml
  log=$results/$preset.log
  names=$results/$preset.names
  if ! ctest --preset "$preset" -N "$@" >"$log.list" 2>&1; then
    record failed "tests of $preset" "ctest cannot list them: see $log.list"
    return 0
  fi
  sed -n 's/^ *Test *#[0-9]*: \(.*\)$/\1/p' "$log.list" | sed 's/ (Disabled)$//' >"$names"
  expected=$(wc -l <"$names")
  ctest --preset "$preset" -j "$jobs" --output-on-failure --no-tests=error --output-junit "$junit" "$@" \
    >"$log" 2>&1 || true
  if [[ ! -s $junit ]]; then
    record failed "tests of $preset" "no results from ctest in $tree: see $log"
    tail -n 20 "$log" | sed 's/^/    | /'
    return 0
  fi
  local seen=0
  while IFS=$'\t' read -r kind name reason; do
    seen=$((seen + 1))
    if [[ $kind == skipped ]] && ! skip_is_listed "$name"; then
      kind=failed
      reason="skipped, but not listed in tests/skips.txt: $reason"
    fi
    record "$kind" "$name" "$reason"
    if [[ $kind == failed ]]; then show_failure "$log" "$name"; fi
  done < <(awk -f tests/stages/junit.awk "$junit")
  if [[ $seen == 0 || $seen -lt $expected ]]; then
    record failed "tests of $preset" "$seen of $expected cases have a result"
  fi
}

# What the failed test printed: ctest puts it in front of the line that says so.
show_failure() {
  printf '    FAILED %s\n' "$2"
  awk -v name="$2" '
    / Test +#[0-9]+: / { if (index($0, ": " name " ") && /\*\*\*/) printing = 1; else printing = 0; next }
    /^ +Start +[0-9]+: / { next }
    /^[0-9]+% tests passed/ { printing = 0 }
    printing && ++lines <= 40 { print "    | " $0 }' "$1"
}
