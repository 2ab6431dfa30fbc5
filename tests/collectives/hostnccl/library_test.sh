#!/bin/sh
# What the built object looks like from outside: soname, exports, what it pulls in.
#   library_test.sh DIRECTORY SANITIZE
set -eu
directory=$1
sanitize=$2
library=$directory/libnccl.so.2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

[ "$(readlink "$directory/libnccl.so")" = libnccl.so.2 ] || fail "libnccl.so does not lead to libnccl.so.2"
readelf -d "$library" | grep -q 'SONAME.*\[libnccl\.so\.2\]' || fail "the soname is not libnccl.so.2"

# Every name is promised by the README, and nothing else is visible.
cat > "$work/names" <<'NAMES'
AllGather
AllReduce
AlltoAll
Bcast
Broadcast
CommAbort
CommCount
CommCuDevice
CommDeregister
CommDestroy
CommFinalize
CommGetAsyncError
CommInitAll
CommInitRank
CommInitRankConfig
CommInitRankScalable
CommRegister
CommRevoke
CommShrink
CommSplit
CommUserRank
CommWindowDeregister
CommWindowRegister
DevCommCreate
DevCommDestroy
Gather
GetErrorString
GetLastError
GetUniqueId
GetVersion
GinBarrierCreateRequirement
GroupEnd
GroupSimulateEnd
GroupStart
LLA2ACreateRequirement
LsaBarrierCreateRequirement
MemAlloc
MemFree
Recv
RedOpCreatePreMulSum
RedOpDestroy
Reduce
ReduceScatter
ResetDebugInit
Scatter
Send
NAMES
sed 's/^/W nccl/' "$work/names" > "$work/expected"
sed 's/^/T pnccl/' "$work/names" >> "$work/expected"
nm -D --defined-only "$library" | awk '{print $2, $3}' | sort > "$work/exported"
sort -o "$work/expected" "$work/expected"
diff -u "$work/expected" "$work/exported" || fail "exported symbols differ (- promised, + found)"

if [ -z "$sanitize" ]; then
  readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' |
    grep -v -x -e 'libc\.so\.6' -e 'libm\.so\.6' -e 'ld-linux.*' > "$work/needed" || true
  [ ! -s "$work/needed" ] || fail "needs more than libc: $(tr '\n' ' ' < "$work/needed")"
fi
echo "as promised"
