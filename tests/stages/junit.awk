# Turns ctest's JUnit file into lines "passed|failed|skipped <tab> name <tab> reason".
#
# ctest calls a case skipped when its output contains GoogleTest's skip mark, even if an assertion
# failed as well, and "not run" when its program is missing: both are failures here. So is a
# GoogleTest program that matched no case, which passes with nothing done.

function attribute(line, name,    rest) {
  rest = line
  if (!sub(".* " name "=\"", "", rest)) return ""
  sub("\".*", "", rest)
  gsub("&quot;", "\"", rest); gsub("&lt;", "<", rest); gsub("&gt;", ">", rest)
  gsub("&apos;", "'", rest); gsub("&amp;", "\\&", rest)
  return rest
}
function finish() {
  if (name == "") return
  kind = "failed"; why = ""
  if (status == "run") {
    if (empty) why = "ran no test case"; else kind = "passed"
  } else if (status == "disabled") {
    kind = "skipped"; why = "disabled"
  } else if (status == "notrun" && message ~ /^SKIP_/) {
    if (assertion) why = "an assertion failed beside the skip"
    else { kind = "skipped"; why = (reason == "" ? "no reason given" : reason) }
  } else if (status == "notrun") why = message
  print kind "\t" name "\t" why
  name = ""
}
/<testcase / {
  finish()
  name = attribute($0, "name"); status = attribute($0, "status")
  message = ""; reason = ""; empty = 0; assertion = 0; take = 0
}
/<skipped / { message = attribute($0, "message") }
take { reason = $0; gsub("&quot;", "\"", reason); gsub("&lt;", "<", reason); gsub("&gt;", ">", reason); take = 0 }
/: Skipped$/ { if (reason == "") take = 1 }
/^\[  FAILED  \]/ { assertion = 1 }
/Running 0 tests from 0 test suites/ { empty = 1 }
/<\/testcase>/ { finish() }
END { finish() }
