#!/usr/bin/env bash
# Installs what is missing (Debian packages), builds and runs every test.
#   tests/run.sh          the optimised build, warnings are errors
#   tests/run.sh --asan   the same tests under the address and undefined-behaviour sanitizers
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/experiments/install_packages.sh"

preset=test
[ $# -le 1 ] || { echo "error: tests/run.sh: unknown option '$2' (expected --asan or nothing)" >&2; exit 2; }
case "${1:-}" in
  "") ;;
  --asan) preset=asan ;;
  *) echo "error: tests/run.sh: unknown option '$1' (expected --asan or nothing)" >&2; exit 2 ;;
esac

install_packages $build_packages $test_packages $run_packages
cd "$root"

if command -v clang-format >/dev/null; then
  echo "== clang-format"
  git -c safe.directory="$root" ls-files '*.h' '*.cpp' '*.cu' | xargs clang-format --dry-run --Werror
else
  echo "== clang-format: not installed, the check is left out"
fi

echo "== build ($preset)"
generator=()
if command -v ninja >/dev/null && [ ! -e "build/$preset/CMakeCache.txt" ]; then generator=(-G Ninja); fi
cmake --preset "$preset" "${generator[@]}" >"/tmp/cbwc-configure-$$.log" ||
  { cat "/tmp/cbwc-configure-$$.log"; echo "error: tests/run.sh: cmake failed" >&2; exit 1; }
rm -f "/tmp/cbwc-configure-$$.log"
cmake --build "build/$preset" -j "$(nproc)" || { echo "error: tests/run.sh: the build failed" >&2; exit 1; }

if [ "$preset" = test ]; then
  if command -v nvcc >/dev/null; then
    echo "== build (cuda): core with its CUDA kernels, compiled and linked; nothing is run"
    cmake --preset cuda "${generator[@]}" >/dev/null
    cmake --build build/cuda --target cbwc_core_links -j "$(nproc)"
  else
    echo "== build (cuda): nvcc is not installed, left out"
  fi
fi

echo "== tests"
# Waiting threads sleep: on a shared machine spinning ones take the time from those that work.
export OMP_WAIT_POLICY=passive
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0
ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)"
