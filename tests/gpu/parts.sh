#!/usr/bin/env bash
# The parts of a GPU run. Sourced by run.sh, after build.sh.
: "${work:?source this from run.sh}" "${results:?}" "${standin?}" "${bundle?}" "${nccl?}"

# line PART NAME STATE [NOTE]: one line of the results.
line() { printf '%s\t%s\t%s\t\t\t%s\n' "$1" "$2" "$3" "${4:-}" >>"$results"; }

failures() { awk -F '\t' '$3 == "fail"' "$results" | wc -l; }

# part NAME FUNCTION: what it prints is kept. One that ended badly without saying why is a failure too.
part() {
  local begin=$SECONDS before
  before=$(failures)
  echo "== $1"
  if ! "$2" 2>&1 | tee "$work/$1.log" && [[ $(failures) == "$before" ]]; then
    line "$1" "the part ended well" fail "$(tail -n 3 "$work/$1.log" | tr '\t\n' '  ')"
  fi
  echo "== $1: $((SECONDS - begin)) s"
}

smi() {
  if [[ -z $standin ]] && command -v nvidia-smi >/dev/null; then
    nvidia-smi "--query-gpu=$1" --format=csv,noheader,nounits -i 0 2>/dev/null || echo unknown
  else
    echo unknown
  fi
}

device_name() { if [[ -n $standin ]]; then echo "CPU stand-in"; else smi name; fi; }

with_driver() {
  if [[ -n $standin ]]; then
    env "LD_LIBRARY_PATH=$standin" "$@"
  else
    "$@"
  fi
}

# Arguments of every program.
program_options() {
  printf '%s\n' --image "$work/bin/stepgate.fatbin" --baselines "$work/bin/baselines.fatbin" --results "$results"
  if [[ -e $work/bin/libcub_sum.so ]]; then printf '%s\n' --cub "$work/bin/libcub_sum.so"; fi
  if [[ -n $standin ]]; then printf '%s\n' --standin --small; fi
}

# 90 for compute capability 9.0.
architecture() {
  local capability
  if [[ -n $standin ]]; then
    echo 90
    return
  fi
  capability=$(smi compute_cap)
  capability=${capability//./}
  if [[ $capability =~ ^[0-9]+$ ]]; then echo "$capability"; else echo native; fi
}

build_one() {
  if "$@" >"$work/$1.log" 2>&1; then
    line build "$1" pass
  else
    line build "$1" fail "$(grep -m 1 -iE 'error|fatal' "$work/$1.log" || tail -n 1 "$work/$1.log")"
    tail -n 20 "$work/$1.log"
  fi
}

build_part() {
  local arch
  arch=$(architecture)
  if [[ $arch == native ]]; then
    line build "compute capability" fail "nvidia-smi does not tell it"
    return 1
  fi
  if [[ -n $nvcc ]]; then
    build_one build_kernels "$arch" &
    build_one build_baselines "$arch" &
    # Half a minute of templates, and nothing that a stand-in could run.
    if [[ -z $standin ]]; then build_one build_cub "$arch" & fi
  elif [[ -n $standin ]]; then
    line build "kernels and baselines" skip "no nvcc; the stand-in has its own"
    echo "stand-in" >"$work/bin/stepgate.fatbin"
  else
    line build "nvcc" fail "not in PATH, CUDA_HOME/bin or /usr/local/cuda/bin"
  fi
  build_one build_host_programs
  wait
}

correctness_part() {
  local options
  mapfile -t options < <(program_options)
  with_driver "$work/bin/correctness" "${options[@]}"
}

timing_part() {
  local options sampler=""
  mapfile -t options < <(program_options)
  if [[ -z $standin ]] && command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv,noheader,nounits -i 0 -lms 500 \
      >"$work/clocks.csv" 2>/dev/null &
    sampler=$!
  fi
  local status=0
  with_driver "$work/bin/timing" "${options[@]}" || status=$?
  if [[ -n $sampler ]]; then
    kill "$sampler" 2>/dev/null || true
    wait "$sampler" 2>/dev/null || true
  fi
  return "$status"
}

# Lowest and highest clocks while the timings ran.
clocks_seen() {
  if [[ ! -s $work/clocks.csv ]]; then
    echo unknown
    return
  fi
  awk -F', *' '
    NR == 1 { low = high = $1; memory = $2 }
    { if ($1 + 0 < low + 0) low = $1; if ($1 + 0 > high + 0) high = $1; if ($2 + 0 > memory + 0) memory = $2 }
    END { printf "SM %s to %s MHz, memory %s MHz", low, high, memory }' "$work/clocks.csv"
}

# The bundle's plugin, unpacked; fails by name where there is no bundle.
unpack_bundle() {
  if [[ -z $bundle ]]; then bundle=$(find build/dev -maxdepth 1 -name 'stepgate-*.tar.gz' 2>/dev/null | sort | tail -n 1); fi
  if [[ -z $bundle || ! -f $bundle ]]; then
    line interception "the bundle is here" fail "no ${bundle:-build/dev/stepgate-*.tar.gz}; see docs/gpu.md"
    return 1
  fi
  mkdir -p "$work/bundle"
  tar xzf "$bundle" -C "$work/bundle" --strip-components=1
}

# A real NCCL: what was asked for, what the loader has, what Python's package has.
find_nccl() {
  local path
  if [[ -n $nccl ]]; then
    echo "$nccl"
    return
  fi
  path=$(ldconfig -p 2>/dev/null | sed -n 's/.*libnccl\.so\.2 .*=> //p' | head -n 1)
  if [[ -z $path ]] && command -v python3 >/dev/null; then
    path=$(python3 -c 'import nvidia.nccl as m; print(list(m.__path__)[0])' 2>/dev/null || true)
    path=${path:+$path/lib/libnccl.so.2}
  fi
  if [[ -z $path || ! -e $path ]]; then path=$(find /usr /opt -name 'libnccl.so.2' 2>/dev/null | head -n 1); fi
  echo "$path"
}

interception_part() {
  local library options
  unpack_bundle || return 0
  if [[ -n $standin ]]; then library=$work/bundle/lib/hostnccl/libnccl.so.2; else library=$(find_nccl); fi
  if [[ -z $library || ! -f $library ]]; then
    line interception "an NCCL is here" fail "no libnccl.so.2 found; name one with --nccl"
    return 0
  fi
  echo "NCCL: $library"
  build_one build_interception "$library"
  if [[ ! -x $work/bin/interception ]]; then return 0; fi
  # A build without nvcc does not fit the stand-in's device, and says so.
  if ! with_driver "$work/bundle/bin/stepgate" check && [[ -z $standin ]]; then
    line interception "stepgate check of the bundle" fail "its table stands in the log"
  fi
  mapfile -t options < <(program_options)
  with_driver env "LD_PRELOAD=$work/bundle/lib/libstepgate.so" STEPGATE_MODE=enforce STEPGATE_METRICS_PORT=0 \
    STEPGATE_ATTRIBUTION=on "$work/bin/interception" "${options[@]}"
}

sanitizer_part() {
  local tool options path=""
  for path in "$(command -v compute-sanitizer || true)" "${nvcc%/*}/compute-sanitizer" \
    /usr/local/cuda/bin/compute-sanitizer; do
    if [[ -x $path ]]; then break; fi
  done
  mapfile -t options < <(program_options)
  # The results of these runs are the tool's, not the program's.
  for tool in memcheck racecheck; do
    if [[ -n $standin || ! -x $path ]]; then
      line sanitizer "compute-sanitizer $tool" skip "no compute-sanitizer, or no GPU for it"
    elif timeout 100 "$path" "--tool=$tool" --error-exitcode=9 "$work/bin/correctness" "${options[@]}" --brief \
      --results /dev/null >"$work/$tool.log" 2>&1; then
      line sanitizer "compute-sanitizer $tool" pass
    elif [[ $? == 124 ]]; then
      line sanitizer "compute-sanitizer $tool" fail "it did not end within 100 s"
    elif grep -qE 'Device not supported|not supported on this|Unable to' "$work/$tool.log"; then
      line sanitizer "compute-sanitizer $tool" skip "the tool refuses this device"
    else
      line sanitizer "compute-sanitizer $tool" fail "$(grep -m 1 '=========' "$work/$tool.log" || tail -n 1 "$work/$tool.log")"
    fi
  done
}

torch_part() {
  if [[ -n $standin ]]; then
    line torch "PyTorch" skip "it cannot run on a stand-in"
  elif ! python3 -c 'import torch' 2>/dev/null; then
    line torch "PyTorch" skip "python3 has no torch"
  elif [[ -f $work/bin/libprobe.so && -f $work/bin/stepgate.fatbin ]]; then
    timeout 120 python3 tests/gpu/torch_baseline.py --probe "$work/bin/libprobe.so" \
      --image "$work/bin/stepgate.fatbin" --results "$results"
  else
    line torch "PyTorch" fail "the probe was not built"
  fi
}
