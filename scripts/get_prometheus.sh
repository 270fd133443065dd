#!/usr/bin/env bash
# Unpack Debian's prometheus and promtool into a folder, without root and without installing anything.
# Package lists that are missing or old are fetched into a folder of our own. Where there is no apt, or no such package,
# what PATH has is linked instead.
set -euo pipefail

target=${1:?usage: get_prometheus.sh FOLDER}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

download() { # options of apt-get
    (cd "$scratch" && apt-get -qq -o APT::Sandbox::User=root "$@" download prometheus 2>"$scratch/said")
}

download_with_lists_of_our_own() {
    mkdir -p "$scratch"/state/lists/partial "$scratch"/cache/archives/partial
    local options=(-o "Dir::State=$scratch/state" -o "Dir::State::status=/var/lib/dpkg/status" -o "Dir::Cache=$scratch/cache")
    apt-get -qq -o APT::Sandbox::User=root "${options[@]}" update >"$scratch/said" 2>&1 && download "${options[@]}"
}

link_from_path() {
    command -v prometheus promtool >/dev/null &&
        ln -sf "$(command -v prometheus)" "$(command -v promtool)" "$target/bin/"
}

mkdir -p "$target/bin"
if command -v apt-get dpkg >/dev/null && { download || download_with_lists_of_our_own; }; then
    dpkg -x "$scratch"/prometheus_*.deb "$scratch/unpacked"
    mv "$scratch"/unpacked/usr/bin/{prometheus,promtool} "$target/bin/"
elif ! link_from_path; then
    cat "$scratch"/said* >&2 || true
    echo "no Prometheus: neither apt-get nor PATH has it; install prometheus and promtool" >&2
    exit 1
fi
"$target/bin/prometheus" --version 2>&1 | head -1
