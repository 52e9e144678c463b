#!/usr/bin/env bash
# check_floors.sh SOURCE_DIR: every #include must go to its own floor or to one below it, a third-party
# header may be included only from its one home, and the top level holds only the known names (and
# build and runs, which git ignores).
# Checks itself as well: a tree with forbidden includes must fail. Exit 0 when all holds, 1 otherwise.
set -u

floors="core autograd layers optim data experiments tests"

# The floors that each floor may include from, itself among them.
allowed() {
  case $1 in
    core) echo core ;;
    autograd) echo core autograd ;;
    layers) echo core autograd layers ;;
    optim) echo core autograd optim ;;
    data) echo core data ;;
    experiments) echo core autograd layers optim data experiments ;;
    tests) echo $floors ;;
  esac
}

# Prints what is wrong with the third-party include $2 of file $1, if anything.
third_party() {
  local home
  case $2 in
    cblas.h | openblas_config.h) home='core/kernels/cpu/*' ;;
    cuda*.h | cublas*.h | cudnn*.h) home='core/cuda/* core/kernels/cuda/*' ;;
    hdf5.h | H5*.h) home='data/*.cpp data/*private*.h data/*internal*.h data/hdf5*.h tests/*' ;;
    jpeglib.h | png.h | sentencepiece*.h | zlib.h) home='data/*.cpp tests/*' ;;
    # CLI11 costs 7 s of compiling wherever it is included.
    CLI/*) home='experiments/command_line.cpp experiments/cli.cpp experiments/missing_data.cpp' ;;
    nlohmann/*) home='data/json.h' ;;
    toml++/*) home='experiments/* tests/*' ;;
    catch2/*) home='tests/*' ;;
    *) return ;;
  esac
  local pattern
  set -f
  for pattern in $home; do
    # shellcheck disable=SC2053  # the right side is a pattern
    [[ $1 == $pattern ]] && { set +f; return; }
  done
  set +f
  echo "$1: <$2> may be included only from $home"
}

# Prints one line for each thing wrong in the tree $1.
check_tree() {
  local file name floor other
  for file in "$1"/*; do
    name=${file##*/}
    case " $floors CMakeLists.txt CMakePresets.json README.md LICENSE build runs " in
      *" $name "*) ;;
      *) echo "$name: not a name for the top level" ;;
    esac
  done
  (cd "$1" && grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' $floors \
    --include=*.h --include=*.cpp --include=*.cu 2>/dev/null) |
    sed -E 's/^([^:]*):([0-9]+):[^"<]*["<]([^">]*)[">].*/\1 \3/' |
    while read -r file name; do
      floor=${file%%/*}
      other=${name%%/*}
      if [[ $name == */* && " $floors " == *" $other "* ]]; then
        [[ " $(allowed "$floor") " == *" $other "* ]] ||
          echo "$file: \"$name\" is on a floor that $floor may not use"
      else
        third_party "$file" "$name"
      fi
    done
}

# Negative control: each of these lines alone must be found.
check_itself() {
  local file include found
  tree=$(mktemp -d)
  trap 'rm -rf "${tree:-}"' EXIT
  while read -r file include; do
    rm -rf "${tree:?}"/*
    mkdir -p "$tree/$(dirname "$file")"
    echo "#include $include" >"$tree/$file"
    found=$(check_tree "$tree" | wc -l)
    [ "$found" -eq 1 ] || echo "the check itself: $found findings for $include in $file, not 1"
  done <<'CASES'
core/tensor.cpp "autograd/tape.h"
layers/gpt.h "optim/adamw.h"
data/batches.cpp "autograd/tape.h"
optim/adamw.cpp "data/batches.h"
autograd/tape.cpp "tests/support/op_case.h"
layers/linear.cpp <cblas.h>
core/kernels/softmax.h <cuda_runtime.h>
core/kernels/cpu/matmul.cpp <cublas_v2.h>
experiments/trainer.cpp <hdf5.h>
data/batches.h <hdf5.h>
data/image_file.h <png.h>
experiments/trainer.cpp <jpeglib.h>
data/token_file.cpp <CLI/CLI.hpp>
experiments/commands/train.cpp <CLI/CLI.hpp>
layers/gpt.cpp <toml++/toml.h>
core/tensor.h <catch2/catch.hpp>
scripts/run.cpp <vector>
CASES
  rm -rf "${tree:?}"/*
  mkdir -p "$tree/experiments"
  echo '#include "core/tensor.h"' >"$tree/experiments/trainer.cpp"
  [ -z "$(check_tree "$tree")" ] || echo "the check itself: a good tree fails"
}

[ $# -eq 1 ] && [ -d "$1/core" ] || { echo "usage: check_floors.sh SOURCE_DIR" >&2; exit 1; }
problems=$(check_itself; check_tree "$1")
if [ -n "$problems" ]; then
  echo "$problems"
  exit 1
fi
echo "floors: all includes keep to the floor plan"
