#!/bin/sh
# Installs what is needed, builds, and trains a small language model on four ranks under StepGate: the
# loss scale starts too high, so the first steps overflow, and one NaN is put into one rank's gradient.
# Shows what happened. The exit status says whether all of it went as it must. Can be run again.
set -eu

usage() {
  cat <<'USAGE'
usage: integration/quickstart.sh [--json FILE] [--steps N] [--ranks N] [--help]

  --json FILE  keeps every rank's records, one JSON document
  --steps N    steps to train, 100 or more (2400, about a minute)
  --ranks N    ranks, 1 to 16 (4)
USAGE
}

refuse() {
  echo "quickstart.sh: $1" >&2
  exit 2
}

# number NAME VALUE LOW HIGH
number() {
  case $2 in
    # A leading zero would make the shell count in eights.
    '' | *[!0-9]* | ???????* | 0?*) refuse "$1 is '$2'; allowed: a whole number from $3 to $4" ;;
  esac
  if [ "$2" -lt "$3" ] || [ "$2" -gt "$4" ]; then
    refuse "$1 is '$2'; allowed: a whole number from $3 to $4"
  fi
}

json='' steps=2400 ranks=4
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --json | --steps | --ranks) [ $# -ge 2 ] || refuse "$1 needs a value" ;;
    *) refuse "unknown option '$1'; see --help" ;;
  esac
  case $1 in
    --json) json=$2 ;;
    --steps) number --steps "$2" 100 999999 && steps=$2 ;;
    --ranks) number --ranks "$2" 1 16 && ranks=$2 ;;
  esac
  shift 2
done
# A relative name is meant from where the caller stands.
case $json in
  '' | /*) ;;
  *) json=$PWD/$json ;;
esac

cd "$(dirname "$0")/.."
root=$PWD
build=$root/build/dev
work=$build/quickstart

echo "== packages"
"$root/cmake/install-packages.sh" --build-only

echo "== build (build/dev)"
[ -f "$build/build.ninja" ] || cmake --preset dev
cmake --build "$build" --target stepgate charlm charlm_report \
  stepgate_shim stepgate_core_so stepgate_ucx stepgate_hostnccl

# The last third of the training has to go on well after it.
inject_rank=2
[ "$ranks" -gt 2 ] || inject_rank=$((ranks - 1))
inject_step=$((steps * 6 / 10))

rm -rf "$work"
mkdir -p "$work"
run=$work/charlm

set -- "$build/bin/stepgate" run -n "$ranks" --mode enforce --nccl host -- \
  "$build/bin/charlm" --strategy zero1 --steps "$steps" --initial-scale 16777216 --interval 500 \
  --inject "$inject_rank:$inject_step:hidden1.weight:nan" --json "$run" --progress --linger 120
echo "== train"
echo "$*"
"$@" &
launcher=$!
trap 'kill $launcher 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The ranks write their records, then keep their metrics pages up until charlm.done appears.
finished() {
  rank=0
  while [ "$rank" -lt "$ranks" ]; do
    [ -f "$run.rank$rank" ] || return 1
    rank=$((rank + 1))
  done
}
while ! finished; do
  if ! kill -0 "$launcher" 2>/dev/null; then
    status=0
    wait "$launcher" || status=$?
    trap - EXIT
    echo "quickstart.sh: the training ended early with status $status" >&2
    [ "$status" -ne 0 ] || status=1
    exit "$status"
  fi
  sleep 0.2
done

echo "== what happened"
set -- --files "$run" --ranks "$ranks" --steps "$steps" --expect-model-overflow --scrape
[ -z "$json" ] || set -- "$@" --json "$json"
status=0
"$build/bin/charlm_report" "$@" || status=$?

touch "$run.done"
wait "$launcher" || status=1
trap - EXIT

cat <<WHERE

== where to look next
  build/dev/bin/stepgate run --help       start your own job the same way
  build/dev/bin/charlm --help             other strategies, faults, checkpoints
  the same faults without StepGate        put --no-plugin in front of the -- above: ranks decide apart
  plugin/include/stepgate/stepgate.h      the C API; client.h beside it needs nothing to link
  charts/stepgate                         alert rules for Prometheus
  README.md                               configuration and limits
WHERE
if [ "$status" -eq 0 ]; then
  echo "All of it holds."
else
  echo "quickstart.sh: not everything holds; see FAILED above" >&2
fi
exit "$status"
