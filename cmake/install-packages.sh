#!/usr/bin/env bash
# Installs the Debian 12 packages that StepGate needs: to build, to test, or for the long checks.
# Both commands of the README run it. Does nothing, and needs no rights, when all is there.
# CUDA is never installed: see STEPGATE_CUDA in docs/development.md.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: cmake/install-packages.sh [--build-only | --full] [--list]
  --build-only  what the build and the quickstart need, no test tools
  --full        also what `tests/run.sh --full` needs (coverage, valgrind, Helm's library from PyPI)
  --list        print the packages, one a line, and install nothing
Without an option: build and test packages.
STEPGATE_SKIP_INSTALL=1 skips the whole script (you brought the packages another way).
TEXT
}

# Compiler and build tools, then libraries. libcurl and zlib are there because prometheus-cpp's CMake
# package looks for them, libssl-dev for the metrics page over TLS, base-files because the example trains
# on a text that it installs.
build_packages=(
  g++ cmake ninja-build pkg-config binutils ccache base-files
  libucx-dev libabsl-dev libhwy-dev nlohmann-json3-dev
  prometheus-cpp-dev libcurl4-openssl-dev zlib1g-dev libssl-dev
)
# The package prometheus is there for promtool, and tests start the server on a folder of their own; its
# service is neither started nor enabled. openssl makes certificates for tests. Open MPI is what hostnccl is
# compared with.
test_packages=(
  git libgtest-dev libbenchmark-dev libboost-context-dev prometheus clang-format clang-tidy shellcheck procps curl patchelf
  openssl libopenmpi-dev openmpi-bin python3
)
full_packages=(gcovr valgrind python3-venv)

say() { printf 'install-packages: %s\n' "$*"; }
fail() {
  printf 'install-packages: %s\n' "$*" >&2
  exit 1
}

wanted=("${build_packages[@]}" "${test_packages[@]}")
list_only=0
for argument in "$@"; do
  case $argument in
    --build-only) wanted=("${build_packages[@]}") ;;
    --full) wanted+=("${full_packages[@]}") ;;
    --list) list_only=1 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) fail "unknown option '$argument'; allowed: --build-only, --full, --list, --help" ;;
  esac
done

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
    sed -n 's/^installed //p' || true)
  printf '%s\n' "${wanted[@]}" | grep -vxF -f <(printf '%s\n' "$installed" | grep . || echo '-') || true
}

if [[ $list_only == 1 ]]; then
  printf '%s\n' "${wanted[@]}"
  exit 0
fi
if [[ ${STEPGATE_SKIP_INSTALL:-0} == 1 ]]; then
  say "skipped, as STEPGATE_SKIP_INSTALL=1 asks"
  exit 0
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "this is no Debian system. Install the equivalents of: ${wanted[*]}; then set STEPGATE_SKIP_INSTALL=1"
fi

mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} == 0 ]]; then
  say "all ${#wanted[@]} packages are there"
  exit 0
fi

as_root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo >/dev/null ||
    fail "missing: ${missing[*]}. Run this script as root, or install sudo"
  as_root=(sudo)
fi

# Keeps a service from being started by its package's scripts: masked for systemd while the package
# is unpacked, out of the run level for init scripts; afterwards it is disabled, not masked.
service_mask=/etc/systemd/system/prometheus.service
masked=0
mask_service() {
  [[ " ${missing[*]} " == *" prometheus "* && ! -e $service_mask && ! -L $service_mask ]] || return 0
  "${as_root[@]}" mkdir -p "${service_mask%/*}"
  "${as_root[@]}" ln -s /dev/null "$service_mask"
  masked=1
}
unmask_service() {
  [[ $masked == 1 ]] || return 0
  masked=0
  "${as_root[@]}" rm -f "$service_mask"
  "${as_root[@]}" rm -f /etc/systemd/system/multi-user.target.wants/prometheus.service
  if command -v update-rc.d >/dev/null; then
    "${as_root[@]}" update-rc.d prometheus disable >/dev/null 2>&1 || true
  fi
}
trap unmask_service EXIT

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -y \
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

say "installing ${#missing[@]} of ${#wanted[@]} packages: ${missing[*]}"
apt update || say "apt-get update failed; trying with the lists that are there"
mask_service
apt install --no-install-recommends "${missing[@]}" ||
  fail "apt-get could not install: ${missing[*]}. Its own message stands above"
unmask_service

mapfile -t missing < <(missing_packages)
[[ ${#missing[@]} == 0 ]] || fail "still missing after the installation: ${missing[*]}"
say "done"
