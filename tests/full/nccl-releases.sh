#!/usr/bin/env bash
# The shim over NCCL releases: each wheel of NVIDIA's on PyPI from 2.18 on is fetched, a program that calls
# every hooked function (tests/plugin/shim/release_probe.c) runs with it and the plugin preloaded, and the
# wheel is deleted. What must hold for each release:
#   - the program starts, and ncclGetVersion gives the version of the wheel
#   - a function that the release has answers through its hook as it does when called directly
#   - one that it lacks answers ncclInvalidUsage (5), with a message that names it
#   - ncclCommInitRank's result (an error without a GPU) passes through unchanged
# Needs the main tree, python3 with venv and pip, and PyPI: some 9 GB pass by, half a GB at a time.
#
# usage: tests/full/nccl-releases.sh [PACKAGE==VERSION ...]   (default: all, of CUDA 12 and 13)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

plugin=$PWD/build/dev/lib/libstepgate.so
probe=$PWD/build/dev/bin/shim_release_probe
work=$PWD/build/nccl-releases
packages=(nvidia-nccl-cu12 nvidia-nccl-cu13)
for needed in "$plugin" "$probe"; do
  [[ -e $needed ]] || {
    echo "nccl-releases: $needed is missing; build the main tree first" >&2
    exit 1
  }
done
rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip() { timeout 900 "$work/venv/bin/python" -m pip --disable-pip-version-check "$@"; }

# Releases of one package, oldest first.
releases() {
  pip index versions "$1" 2>/dev/null | sed -n 's/^Available versions: //p' | tr -d ' ' | tr , '\n' |
    sort -V | awk -F. '$1 > 2 || ($1 == 2 && $2 >= 18)'
}

# 2.28.9 is 22809; what follows a third number (.post1) is the packaging's.
version_code() { awk -F. '{ print $1 * 10000 + $2 * 100 + $3 }' <<<"$1"; }

# The library alone of a wheel, to stdout's folder.
unpack() {
  "$work/venv/bin/python" - "$1" "$2" <<'PYTHON'
import sys, zipfile, shutil
with zipfile.ZipFile(sys.argv[1]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("lib/libnccl.so.2"))
    with wheel.open(name) as source, open(sys.argv[2] + "/libnccl.so.2", "wb") as target:
        shutil.copyfileobj(source, target)
PYTHON
}

# Prints what is wrong with what the probe said; nothing when all is well. $1: version code.
judge() {
  awk -v wanted="$1" -v messages="$work/err" '
    BEGIN { while ((getline line < messages) > 0) said = said line "\n" }
    $1 == "version" { if ($2 != wanted) print "ncclGetVersion says " $2 ", not " wanted; versions++ }
    $1 == "init" { split($2, part, "="); init[part[1]] = part[2] }
    $2 ~ /^hook=/ && $3 ~ /^direct=/ {
      hook = substr($2, 6); direct = substr($3, 8); functions++
      if (direct == "absent") {
        absent++
        if (hook != "5") print $1 " is absent and gives " hook ", not 5"
        if (index(said, "has no nccl" $1 ";") == 0) print $1 " is absent without a message"
      } else if (hook != direct) print $1 " gives " hook " through the hook and " direct " directly"
    }
    END {
      if (versions != 1) print "no version"
      if (functions != 27) print functions + 0 " functions answered, not 27"
      if (!("hook" in init) || init["hook"] != init["direct"])
        print "ncclCommInitRank gives " init["hook"] " through the hook and " init["direct"] " directly"
    }' "$work/out"
}

# One release: 0 when it is well.
try() {
  local package=$1 version=$2 wheels=$work/wheels folder=$work/library wrong status=0
  rm -rf "$wheels" "$folder"
  mkdir -p "$wheels" "$folder"
  if ! pip download --quiet --no-deps --only-binary :all: -d "$wheels" "$package==$version" >"$work/pip" 2>&1; then
    echo "  $package $version: FAILED to fetch: $(tail -n 1 "$work/pip")"
    return 1
  fi
  unpack "$wheels"/*.whl "$folder"
  rm -rf "$wheels"
  LD_LIBRARY_PATH=$folder LD_PRELOAD=$plugin STEPGATE_METRICS=off timeout 300 "$probe" \
    >"$work/out" 2>"$work/err" || status=$?
  wrong=$(judge "$(version_code "$version")")
  [[ $status == 0 ]] || wrong="exit status $status"$'\n'$wrong
  if [[ -n $wrong ]]; then
    printf '  %s %s: FAILED\n    %s\n' "$package" "$version" "${wrong//$'\n'/$'\n    '}"
    return 1
  fi
  echo "  $package $version: ok, lacks $(awk '$3 == "direct=absent" { printf "%s ", $1; n++ }
    END { if (!n) printf "nothing " }' "$work/out")(CommInitRank $(sed -n 's/^init hook=//p' "$work/out"))"
}

wanted=("$@")
if [[ ${#wanted[@]} == 0 ]]; then
  for package in "${packages[@]}"; do
    mapfile -t -O "${#wanted[@]}" wanted < <(releases "$package" | sed "s/^/$package==/")
  done
fi
# 2.18 is the oldest that is promised; PyPI not answering is no proof.
if [[ ${#wanted[@]} == 0 ]]; then
  echo "nccl-releases: PyPI names no release" >&2
  exit 1
fi
failed=0
for release in "${wanted[@]}"; do
  try "${release%%==*}" "${release##*==}" || failed=$((failed + 1))
done
rm -rf "$work/library"
echo "nccl-releases: ${#wanted[@]} releases, $failed failed"
[[ $failed == 0 ]]
