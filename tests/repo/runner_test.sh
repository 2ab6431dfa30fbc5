#!/usr/bin/env bash
# Proves that tests/run.sh counts what it must and fails when it must: runs it on small projects of its
# own, one per case, whose "tests" only print what GoogleTest would. usage: runner_test.sh SOURCE_ROOT
set -euo pipefail
root=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
wrong=0

# project: an empty one that run.sh can build; prints its folder.
project() {
  local folder
  folder=$(mktemp -d "$place/XXXXXX")
  mkdir -p "$folder/tests"
  cp -r "$root/tests/run.sh" "$root/tests/stages" "$folder/tests/"
  echo "# none" >"$folder/tests/skips.txt"
  cat >"$folder/CMakePresets.json" <<'JSON'
{"version": 6,
 "configurePresets": [{"name": "ci", "generator": "Ninja", "binaryDir": "${sourceDir}/build/dev"}],
 "buildPresets": [{"name": "ci", "configurePreset": "ci"}],
 "testPresets": [{"name": "ci", "configurePreset": "ci"}]}
JSON
  cat >"$folder/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(runner LANGUAGES NONE)
enable_testing()
# says(NAME STATUS TEXT): a test that prints TEXT and ends with STATUS.
function(says name status text)
  add_test(NAME ${name} COMMAND sh -c "printf '${text}\\n'; exit ${status}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()
CMAKE
  git -C "$folder" init -q
  git -C "$folder" add -A
  git -C "$folder" -c user.name=t -c user.email=t@example.org commit -q -m start
  echo "$folder"
}

# expect CASE STATUS LAST_LINE FOLDER [OPTIONS]
expect() {
  local name=$1 status=$2 line=$3 folder=$4 log got=0
  shift 4
  log=$folder/log
  "$folder/tests/run.sh" --no-install --no-sanitizers "$@" >"$log" 2>&1 || got=$?
  if [[ $got == "$status" && $(tail -n 1 "$log") == "$line" ]]; then
    echo "ok: $name"
  else
    echo "WRONG: $name: status $got, last line '$(tail -n 1 "$log")'; expected $status, '$line'"
    sed 's/^/    | /' "$log"
    wrong=1
  fi
}

# The checks beside the tests: configure, build, clang-format, shellcheck, clang-tidy.
skip='[  SKIPPED ] a.b'

folder=$(project)
echo 'says(good 0 "fine")' >>"$folder/CMakeLists.txt"
expect "all is well" 0 "6 passed, 0 failed, 0 skipped" "$folder"
expect "again, in the same tree" 0 "6 passed, 0 failed, 0 skipped" "$folder"
expect "only what matches" 0 "3 passed, 0 failed, 0 skipped" "$folder" --only go
expect "nothing matches" 1 "2 passed, 1 failed, 0 skipped" "$folder" --only nothing
if "$folder/tests/run.sh" --nonsense >/dev/null 2>&1; then
  echo "WRONG: an unknown option is accepted"
  wrong=1
fi

folder=$(project)
printf 'says(good 0 "fine")\nsays(bad 1 "broken")\n' >>"$folder/CMakeLists.txt"
expect "a failing test" 1 "6 passed, 1 failed, 0 skipped" "$folder"

folder=$(project)
printf 'says(good 0 "fine")\nsays(absent 0 "a.cc:1: Skipped\\\\nno such machine\\\\n%s")\n' "$skip" >>"$folder/CMakeLists.txt"
expect "a skip that is not listed" 1 "6 passed, 1 failed, 0 skipped" "$folder"
grep -q 'not listed in tests/skips.txt: no such machine' "$folder/log" || { echo "WRONG: no reason shown" && wrong=1; }
echo 'abse.t | needs a machine of that kind' >>"$folder/tests/skips.txt"
expect "a skip that is listed" 0 "7 passed, 0 failed, 1 skipped" "$folder"
echo 'gone | was there once' >>"$folder/tests/skips.txt"
expect "a line that covers no test" 1 "7 passed, 1 failed, 1 skipped" "$folder"

folder=$(project)
printf 'says(both 1 "%s\\\\n[  FAILED  ] a.b")\n' "$skip" >>"$folder/CMakeLists.txt"
echo 'both | listed' >>"$folder/tests/skips.txt"
expect "an assertion that failed beside a skip" 1 "6 passed, 1 failed, 0 skipped" "$folder"

folder=$(project)
echo 'says(nothing 0 "[==========] Running 0 tests from 0 test suites.")' >>"$folder/CMakeLists.txt"
expect "a program that ran no case" 1 "5 passed, 1 failed, 0 skipped" "$folder"

folder=$(project)
echo 'add_test(NAME missing COMMAND ./no_such_program)' >>"$folder/CMakeLists.txt"
expect "a program that is not there" 1 "5 passed, 1 failed, 0 skipped" "$folder"

folder=$(project)
expect "no tests at all" 1 "5 passed, 1 failed, 0 skipped" "$folder"

folder=$(project)
printf 'says(good 0 "fine")\nadd_custom_target(broken ALL COMMAND false)\n' >>"$folder/CMakeLists.txt"
expect "a build that fails" 1 "5 passed, 1 failed, 0 skipped" "$folder"

folder=$(project)
printf 'says(good 0 "fine")\n' >>"$folder/CMakeLists.txt"
printf '#pragma once\nint   f ( );\n' >"$folder/odd.h"
# The missing quotes below are the point.
# shellcheck disable=SC2016
printf '#!/bin/sh\nrm $1\n' >"$folder/odd.sh"
git -C "$folder" add -A
expect "wrong format, careless script" 1 "4 passed, 2 failed, 0 skipped" "$folder"

exit $wrong
