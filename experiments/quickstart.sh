#!/usr/bin/env bash
# From a fresh clone to the first comparison: installs what is missing, builds, makes the WordNet
# text data set, trains a small GPT with each norm over several seeds and leaves a report.
#   experiments/quickstart.sh [OUT]     default OUT: runs/quickstart
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/experiments/install_packages.sh"
case "${1:-}" in
  -*) echo "usage: experiments/quickstart.sh [OUT]     default OUT: runs/quickstart" >&2; exit 2 ;;
esac
out=${1:-$root/runs/quickstart}
case "$out" in /*) ;; *) out=$PWD/$out ;; esac

install_packages $build_packages $run_packages
cd "$root"

echo "== build (release)"
log=$(mktemp)
{ cmake --preset release && cmake --build build/release -j "$(nproc)" --target cbwc; } >"$log" 2>&1 || {
  tail -n 30 "$log" >&2; echo "error: the build failed (log: $log)" >&2; exit 1; }
rm -f "$log"
cbwc=build/release/cbwc

data=$root/runs/data/wordnet_bytes.h5
if [ ! -e "$data" ]; then
  echo "== data: glosses and examples of WordNet -> $data"
  mkdir -p "$(dirname "$data")"
  "$cbwc" data wordnet_lm --out "$data"
fi

echo "== compare: three norms x the config's seeds (an interrupted run goes on where it was)"
"$cbwc" compare gpt_quickstart --out "$out" --set "data.file=\"$data\""
echo "== report: $out/report.html"
