#!/usr/bin/env bash
# clang-format, shellcheck, clang-tidy. Sourced by tests/run.sh; needs report.sh, $jobs.
: "${jobs:?source this from tests/run.sh}" "${results:?source this from tests/run.sh}"

tracked_cpp() { git ls-files -z -- '*.h' '*.hpp' '*.cc' '*.cpp' '*.c' '*.cu' '*.cuh' | existing; }

# Drops names of files that are tracked but deleted.
existing() {
  local path
  while IFS= read -r -d '' path; do
    if [[ -f $path ]]; then printf '%s\0' "$path"; fi
  done
}

tracked_scripts() {
  local path
  while IFS= read -r -d '' path; do
    if [[ $path == *.sh || $(head -c 32 "$path" | head -n 1 | tr -d '\0') =~ ^\#!.*(ba|da|)sh$ ]]; then
      printf '%s\0' "$path"
    fi
  done < <(git ls-files -z | existing)
}

format_is_clean() { tracked_cpp | xargs -0 -r -n 64 clang-format --dry-run -Werror; }

scripts_are_clean() { tracked_scripts | xargs -0 -r shellcheck --external-sources; }

# The commit that "changed" is measured from: STEPGATE_TIDY_BASE, the merge base with origin/main, or
# where HEAD is on it, the previous commit. Nothing where there is no earlier commit.
tidy_base() {
  local base
  base=${STEPGATE_TIDY_BASE:-$(git merge-base HEAD origin/main 2>/dev/null || true)}
  if [[ -z $base || $(git rev-parse "$base") == "$(git rev-parse HEAD)" ]]; then
    base=$(git rev-parse -q --verify HEAD~1 || true)
  fi
  echo "$base"
}

changed_cpp() {
  local base
  base=$(tidy_base)
  if [[ -z $base ]]; then
    tracked_cpp
  else
    git diff -z --name-only --diff-filter=d "$base" -- '*.h' '*.hpp' '*.cc' '*.cpp' '*.c' | existing
  fi
}

# Reads names, writes those that the compile commands of the main tree know; headers always, which
# clang-tidy matches with a neighbour's command.
with_commands() {
  local path
  while IFS= read -r -d '' path; do
    if [[ $path == *.h || $path == *.hpp ]] || grep -qF "/$path\"" build/dev/compile_commands.json; then
      printf '%s\0' "$path"
    fi
  done
}

tidy() {
  with_commands | xargs -0 -r -n 4 -P "$jobs" clang-tidy -p build/dev --quiet \
    --extra-arg=-Wno-pragma-once-outside-header --extra-arg=-Wno-unknown-warning-option
}

tidy_of_changed() { changed_cpp | tidy; }
tidy_of_all() { tracked_cpp | tidy; }

lint() {
  if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    record failed lint "needs a git checkout: the lists of files come from it"
    return 0
  fi
  check clang-format format_is_clean || true
  check shellcheck scripts_are_clean || true
  printf '    clang-tidy on files changed since %s\n' "$(tidy_base)"
  check clang-tidy tidy_of_changed || true
}

tidy_all() { check "clang-tidy of all files" tidy_of_all || true; }
