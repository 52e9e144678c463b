# Sourced by tests/run.sh and experiments/quickstart.sh: the Debian packages, and a function that
# installs the missing ones (as root or with sudo; quiet when there is nothing to do).
build_packages="g++ cmake make libopenblas-openmp-dev libhdf5-dev libutf8proc-dev zlib1g-dev libcli11-dev
  libtomlplusplus-dev libfmt-dev nlohmann-json3-dev libjpeg62-turbo-dev libpng-dev libsentencepiece-dev"
test_packages="catch2"
run_packages="gnuplot-nox wordnet-base sentencepiece libsword-utils sword-text-web sword-text-sparv dataset-fashion-mnist"

install_packages() {
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || {
    echo "error: these Debian packages are missing: ${missing[*]} (apt-get not found)" >&2; exit 1; }
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "error: run as root or install sudo; missing packages: ${missing[*]}" >&2; exit 1; }
    sudo=(sudo)
  fi
  echo "== installing ${missing[*]}"
  local log; log=$(mktemp)
  { "${sudo[@]}" apt-get update &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      "${missing[@]}"; } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "error: apt-get could not install: ${missing[*]} (log: $log)" >&2; exit 1; }
  rm -f "$log"
}
