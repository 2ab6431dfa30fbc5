#!/usr/bin/env bash
# Installs what is missing, builds, and runs every check of this repository. The last line counts them:
# "N passed, N failed, N skipped". The exit status is 0 only when nothing failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/run.sh [--full] [--only PATTERN] [--no-sanitizers] [--no-install] [--help]
  --full            also coverage, valgrind on the unit tests, clang-tidy on all files, and the scripts
                    in tests/full/ (mutations, soak)
  --only PATTERN    only the tests whose name matches the regular expression, in the main tree; no lint
  --no-sanitizers   without the trees of AddressSanitizer and ThreadSanitizer
  --no-install      do not look for missing packages
Stages: build, tests, lint, asan, tsan (and with --full: tidy, coverage, valgrind, scripts).
Results: build/results/ (one line per check in outcomes.tsv, a log and a JUnit file per stage).
Skips: each is printed with its reason; one that tests/skips.txt does not list counts as failed.
STEPGATE_TIDY_BASE names the commit that clang-tidy compares with (default: the merge base with
origin/main, or the previous commit).
TEXT
}

full=0
only=""
sanitizers=1
install=1
while [[ $# -gt 0 ]]; do
  case $1 in
    --full) full=1 ;;
    --only)
      [[ $# -ge 2 ]] || {
        echo "run.sh: --only needs a pattern" >&2
        exit 2
      }
      only=$2
      shift
      ;;
    --no-sanitizers) sanitizers=0 ;;
    --no-install) install=0 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "run.sh: unknown option '$1'" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done

jobs=$(nproc)
[[ $jobs -ge 2 ]] || jobs=2
results=build/results
mkdir -p "$results"
rm -f "$results"/*

# shellcheck source=tests/stages/report.sh
source tests/stages/report.sh
# shellcheck source=tests/stages/trees.sh
source tests/stages/trees.sh
# shellcheck source=tests/stages/lint.sh
source tests/stages/lint.sh
# shellcheck source=tests/stages/full.sh
source tests/stages/full.sh

if [[ $install == 1 ]]; then
  packages=()
  [[ $full == 0 ]] || packages=(--full)
  cmake/install-packages.sh "${packages[@]}"
fi

if [[ -n $only ]]; then
  stage build build_tree ci
  stage tests test_tree ci -R "$only"
else
  stage build build_tree ci
  stage tests test_tree ci
  stage lint lint
  if [[ $sanitizers == 1 ]]; then
    for preset in asan tsan; do
      stage "$preset-build" build_tree "$preset"
      stage "$preset" test_tree "$preset"
    done
  fi
  if [[ $full == 1 ]]; then
    stage tidy tidy_all
    stage coverage coverage
    stage valgrind valgrind_units
    stage scripts long_scripts
  fi
  judge_list_of_skips
fi
summary
