#!/usr/bin/env bash
# Everything that one GPU can show about this checkout, in under 8 minutes, with nvcc and g++ alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
usage: tests/gpu/run.sh [--bundle FILE] [--nccl FILE] [--json FILE] [--work FOLDER] [--standin FOLDER] [--help]
  --bundle FILE     the plugin's bundle, from `ninja -C build/dev bundle` on a build machine
                    (default: build/dev/stepgate-*.tar.gz)
  --nccl FILE       the libnccl.so.2 to intercept (default: the loader's, then Python's nvidia-nccl)
  --json FILE       where the results go as JSON (default: gpu.json in --work)
  --work FOLDER     for what is built and unpacked (default: build/gpu)
  --standin FOLDER  no GPU: the CPU stand-in for libcuda.so.1 in FOLDER, small sizes, no speeds judged
Parts: build, correctness and steps, interception, sanitizer, timing, torch. The table comes last.
Exit status: 0 all checks held (missed goals are listed), 1 a check failed or there is no GPU, 2 usage.
TEXT
}

bundle="" nccl="" json="" work=build/gpu standin=""
while [[ $# -gt 0 ]]; do
  case $1 in
    --bundle | --nccl | --json | --work | --standin)
      if [[ $# -lt 2 ]]; then
        echo "run.sh: $1 needs a value" >&2
        exit 2
      fi
      declare "${1#--}=$2"
      shift
      ;;
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

has_gpu() {
  [[ -e /dev/nvidia0 || -e /dev/nvidiactl || -e /dev/dxg ]] || nvidia-smi -L >/dev/null 2>&1
}
if [[ -z $standin ]] && ! has_gpu; then
  echo "run.sh: there is no GPU on this machine; nothing was measured" >&2
  exit 1
fi
if [[ -n $standin && ! -d $standin ]]; then
  echo "run.sh: --standin $standin: no such folder; allowed: the folder of a stand-in libcuda.so.1" >&2
  exit 2
fi
if [[ -n $bundle && ! -f $bundle ]]; then
  echo "run.sh: --bundle $bundle: no such file; build it with: ninja -C build/dev bundle" >&2
  exit 2
fi
mkdir -p "$work"
work=$(cd "$work" && pwd)
rm -rf "${work:?}/bundle" "${work:?}/bin"
mkdir -p "$work/bin"
results=$work/results.tsv
: >"$results"
jobs=$(nproc)
if [[ -n $standin ]]; then
  standin=$(cd "$standin" && pwd)
fi
json=${json:-$work/gpu.json}
started=$SECONDS

# shellcheck source=tests/gpu/build.sh
source tests/gpu/build.sh
# shellcheck source=tests/gpu/parts.sh
source tests/gpu/parts.sh

part build build_part
if [[ -x $work/bin/correctness ]]; then part correctness correctness_part; fi
part interception interception_part
if [[ -x $work/bin/correctness ]]; then part sanitizer sanitizer_part; fi
if [[ -x $work/bin/timing ]]; then part timing timing_part; fi
part torch torch_part

if [[ ! -x $work/bin/summary ]]; then
  cat "$results"
  echo "run.sh: the programs could not be built" >&2
  exit 1
fi
exec "$work/bin/summary" "$results" "$json" "device=$(device_name)" "driver=$(smi driver_version)" \
  "date=$(date -u +%Y-%m-%d)" "commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" \
  "nvcc=$cuda_release" "clocks=$(clocks_seen)" "seconds=$((SECONDS - started))"
