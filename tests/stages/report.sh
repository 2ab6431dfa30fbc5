#!/usr/bin/env bash
# Outcomes, stage times and the summary of tests/run.sh. Sourced; needs $results.
# An outcome is a line "passed|failed|skipped <tab> stage <tab> name <tab> reason".
: "${jobs:?source this from tests/run.sh}" "${results:?source this from tests/run.sh}"

outcomes=$results/outcomes.tsv
: >"$outcomes"
started=$SECONDS
current=""
stage_times=()

record() { printf '%s\t%s\t%s\t%s\n' "$1" "$current" "$2" "${3:-}" >>"$outcomes"; }

count() { awk -F'\t' -v kind="$1" -v stage="${2:-}" \
  '$1 == kind && (stage == "" || $2 == stage) { n++ } END { print n + 0 }' "$outcomes"; }

# stage NAME COMMAND ARGS...: runs a function whose failures are outcomes, never the script's end.
stage() {
  current=$1
  shift
  local begin=$SECONDS failed_before
  failed_before=$(count failed)
  printf '==> %s\n' "$current"
  "$@" || record failed "stage $current" "ended with status $?"
  stage_times+=("$(printf '%-12s %6d s' "$current" $((SECONDS - begin)))")
  printf '    %s passed, %s failed, %s skipped, %d s\n' "$(count passed "$current")" \
    "$(($(count failed) - failed_before))" "$(count skipped "$current")" $((SECONDS - begin))
}

# Runs a command into a log; the outcome is the command's. check NAME COMMAND...
check() {
  local name=$1 log=$results/${1//[^A-Za-z0-9._-]/_}.log
  shift
  if "$@" >"$log" 2>&1; then
    record passed "$name"
    return 0
  fi
  record failed "$name" "see $log"
  tail -n 40 "$log" | sed 's/^/    | /'
  return 1
}

# The regular expressions of tests/skips.txt, one a line.
skip_patterns() {
  awk '/^#/ { next } { bar = index($0, " | ") } bar { print substr($0, 1, bar - 1) }' tests/skips.txt
}

skip_is_listed() {
  local pattern
  while IFS= read -r pattern; do
    if [[ $1 =~ ^($pattern)$ ]]; then return 0; fi
  done < <(skip_patterns)
  return 1
}

# A line of tests/skips.txt that covers no test of any tree has outlived it.
judge_list_of_skips() {
  local pattern
  current=skips
  while IFS= read -r pattern; do
    if grep -qxE -e "$pattern" "$results"/*.names; then
      record passed "skips.txt: $pattern"
    else
      record failed "skips.txt: $pattern" "matches no test: take the line out"
    fi
  done < <(skip_patterns)
}

print_outcomes() {
  [[ $(count "$1") != 0 ]] || return 0
  printf '\n%s:\n' "$2"
  awk -F'\t' -v kind="$1" '$1 == kind { printf "  [%s] %s%s\n", $2, $3, ($4 == "" ? "" : ": " $4) }' "$outcomes"
}

summary() {
  local seconds=$((SECONDS - started)) failed
  failed=$(count failed)
  printf '\nStage times:\n'
  printf '  %s\n' "${stage_times[@]}"
  printf '  %-12s %6d s\n' total "$seconds"
  if ((seconds > 3600)); then
    echo "  WARNING: above 60 minutes. The aim is 40 on two cores: look at the longest stage first."
  fi
  print_outcomes skipped Skipped
  print_outcomes failed Failed
  if [[ $(count passed) == 0 && $failed == 0 ]]; then
    current=run
    record failed "the run" "checked nothing"
    failed=1
  fi
  printf '\n%s passed, %s failed, %s skipped\n' "$(count passed)" "$failed" "$(count skipped)"
  [[ $failed == 0 ]]
}
