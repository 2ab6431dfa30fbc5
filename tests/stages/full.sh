#!/usr/bin/env bash
# The long checks of tests/run.sh --full. Sourced; needs report.sh, trees.sh, $jobs, $results.
: "${jobs:?source this from tests/run.sh}" "${results:?source this from tests/run.sh}"

# Lines of the product that the tests run, at least. Raise it when the figure has grown.
minimum_line_coverage=80

coverage_report() {
  gcovr --root . build/coverage --filter '(collectives|metrics|plugin|integration)/' --print-summary \
    --exclude-throw-branches --gcov-ignore-parse-errors \
    --fail-under-line "$minimum_line_coverage" --txt "$results/coverage.txt" --xml "$results/coverage.xml"
}

coverage() {
  build_tree coverage
  find build/coverage -name '*.gcda' -delete
  ctest --preset coverage -j "$jobs" --output-on-failure >"$results/coverage-tests.log" 2>&1 ||
    record failed "tests of coverage" "see $results/coverage-tests.log"
  check "line coverage of at least $minimum_line_coverage %" coverage_report || true
  grep -E '^lines:' "$results"/line_coverage*.log | sed 's/^/    /' || true
}

# Programs of the unit tests, without those that say no_valgrind.
unit_programs() {
  ctest --test-dir build/dev -N -V -L unit -LE no_valgrind |
    sed -n 's/^[0-9]*: Test command: "\{0,1\}\([^ "]*\).*$/\1/p' | sort -u
}

valgrind_units() {
  local program programs=0
  while IFS= read -r program; do
    programs=$((programs + 1))
    check "valgrind ${program##*/}" valgrind --quiet --error-exitcode=99 --leak-check=full \
      --errors-for-leak-kinds=definite --trace-children=no "$program" --gtest_brief=1 || true
  done < <(unit_programs)
  if [[ $programs == 0 ]]; then record failed valgrind "found no unit test program"; fi
}

# Mutations and soaks bring a script each.
long_scripts() {
  local script
  for script in tests/full/*.sh; do
    [[ -x $script ]] || continue
    check "$script" "$script" || true
  done
}
