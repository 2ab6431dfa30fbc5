#!/usr/bin/env bash
# Builds the GPU programs with nvcc and g++ alone. Sourced by run.sh: needs $work, $standin, $jobs, note, check.
: "${work:?source this from run.sh}" "${standin?}" "${jobs:?}"

# The same flags as the build's: the fixed order of summation allows no contraction.
host_flags=(-std=c++20 -O2 -g1 -Wall -Wextra -Wshadow -ffp-contract=off -march=native -fPIC -fvisibility=hidden
  -I. -Iplugin/include)
# Where nvcc is; "" for nowhere.
find_nvcc() {
  local path
  for path in "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    if [[ -n $path && -x $path ]]; then
      echo "$path"
      return
    fi
  done
}
nvcc=$(find_nvcc)
cuda_release=""
if [[ -n $nvcc ]]; then cuda_release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'); fi
cuda_major=${cuda_release%%.*}
cuda_major=${cuda_major:-13}

if [[ -n $standin ]]; then host_flags+=(-O1 -g0); fi
programs=(correctness timing interception probe summary)

# What a program is made of besides its own file. HostDevice comes without Highway: host_tables.cc.
library_sources() {
  local path
  for path in collectives/core/*.cc collectives/device/cuda/*.cc collectives/device/host/*.cc tests/gpu/*.cc \
    tests/collectives/device/scan_oracle.cc tests/collectives/device_cuda_driver/device_job.cc; do
    case $path in
      collectives/device/host/simd_* | collectives/device/host/kernels.cc) ;;
      tests/gpu/gated_job.cc | tests/gpu/metrics_page.cc) ;; # with interception alone: they call NCCL
      *)
        if ! is_program "$path"; then echo "$path"; fi
        ;;
    esac
  done
}

is_program() {
  local name
  for name in "${programs[@]}"; do
    if [[ $1 == "tests/gpu/$name.cc" ]]; then return 0; fi
  done
  return 1
}

object_of() { echo "$work/objects/${1//\//_}.o"; }

compile_one() {
  # shellcheck disable=SC2086 # CXX may be two words, such as "ccache g++"
  ${CXX:-g++} "${host_flags[@]}" "-DSTEPGATE_CUDA_MAJOR=$cuda_major" -c "$1" -o "$(object_of "$1")"
}

# One object per source, $jobs at a time. In a shell of its own, which waits for no one else's jobs.
compile_all() (
  running=0
  for path in "$@"; do
    compile_one "$path" &
    running=$((running + 1))
    if [[ $running -ge $jobs ]]; then
      wait -n || exit 1
      running=$((running - 1))
    fi
  done
  while [[ $running -gt 0 ]]; do
    wait -n || exit 1
    running=$((running - 1))
  done
)

build_host_programs() {
  mkdir -p "$work/objects" "$work/bin"
  local sources program objects=() main
  mapfile -t sources < <(library_sources)
  for program in "${programs[@]}"; do
    if [[ $program != interception ]]; then sources+=("tests/gpu/$program.cc"); fi
  done
  compile_all "${sources[@]}" || return 1
  for path in "${sources[@]}"; do
    if ! is_program "$path"; then objects+=("$(object_of "$path")"); fi
  done
  for program in correctness timing summary; do
    main=$(object_of "tests/gpu/$program.cc")
    g++ "$main" "${objects[@]}" -ldl -lpthread -o "$work/bin/$program" || return 1
  done
  main=$(object_of tests/gpu/probe.cc)
  g++ -shared "$main" "${objects[@]}" -ldl -lpthread -o "$work/bin/libprobe.so"
}

# $1: the libnccl.so.2 to link to.
build_interception() {
  local path sources=(tests/gpu/interception.cc tests/gpu/gated_job.cc tests/gpu/metrics_page.cc) objects=()
  compile_all "${sources[@]}" || return 1
  for path in "${sources[@]}"; do objects+=("$(object_of "$path")"); done
  while IFS= read -r path; do objects+=("$(object_of "$path")"); done < <(library_sources)
  g++ "${objects[@]}" "$1" "-Wl,-rpath,$(dirname "$1")" -ldl -lpthread -o "$work/bin/interception"
}

# $1: architecture, such as 90.
build_kernels() {
  "$nvcc" -fatbin -std=c++20 -O3 -fmad=false -lineinfo -I. -gencode "arch=compute_$1,code=sm_$1" \
    -o "$work/bin/stepgate.fatbin" collectives/device/cuda/kernels/kernels.cu
}
build_baselines() {
  "$nvcc" -fatbin -std=c++20 -O3 -I. -gencode "arch=compute_$1,code=sm_$1" \
    -o "$work/bin/baselines.fatbin" tests/gpu/baselines.cu
}
build_cub() {
  "$nvcc" -shared -Xcompiler -fPIC -cudart static -std=c++20 -O3 -I. -gencode "arch=compute_$1,code=sm_$1" \
    -o "$work/bin/libcub_sum.so" tests/gpu/cub_sum.cu
}
