#!/usr/bin/env bash
# Builds the image and runs the daemon in containers, as Kubernetes would, and as a service of a booted systemd: with
# tests/deploy/test_image.py, test_pods.py and test_booted.py, which are skipped without it.
#
# Needs root on Debian: podman, runc, debootstrap and systemd-container are installed. The base image is made by
# debootstrap, so no registry is asked. What is slow to make stays in CHECK_DIR for the next time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

CHECK_DIR=${CHECK_DIR:-/var/tmp/kvstow-image-check}
SUITE=bookworm # that of the image named in the Dockerfile
IMAGE=kvstow:0.1.0
PACKAGES=(podman runc debootstrap systemd-container)
base=$CHECK_DIR/base

say() { echo "image-check: $*"; }

if ! dpkg-query --show "${PACKAGES[@]}" >/dev/null 2>&1; then
    say "installing ${PACKAGES[*]}"
    apt-get update --quiet >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${PACKAGES[@]}" >/dev/null
fi

mkdir -p "$CHECK_DIR/bin"
if ! [ -e "$base.done" ]; then
    say "making a base system (once)"
    rm -rf "$base"
    debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates,systemd,dbus \
        "$SUITE" "$base" >"$CHECK_DIR/debootstrap.log" || { tail "$CHECK_DIR/debootstrap.log"; exit 1; }
    touch "$base.done"
fi

# What a container has is what podman gives it, but for two things: no network is set up, and limits that this machine
# does not allow to be raised are left as they are.
cat >"$CHECK_DIR/containers.conf" <<CONF
[containers]
netns = "none"
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=8192:8192"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
CONF
cat >"$CHECK_DIR/bin/docker" <<SHIM
#!/bin/sh
export CONTAINERS_CONF=$CHECK_DIR/containers.conf
exec podman --root $CHECK_DIR/storage --runroot /run/kvstow-image-check --log-level fatal "\$@"
SHIM
chmod +x "$CHECK_DIR/bin/docker"
PATH=$CHECK_DIR/bin:$PATH

if ! docker image exists kvstow-check-base; then
    say "making it an image (once)"
    tar --directory "$base" --create . | docker import --quiet - kvstow-check-base >/dev/null
fi

say "building $IMAGE"
# pip inside trusts what pip here trusts.
printf '[global]\ncert = /etc/ssl/outer.crt\n' >"$CHECK_DIR/pip.conf"
docker build --quiet --format docker --isolation chroot --network host --tag "$IMAGE" \
    --build-arg PYTHON_IMAGE=localhost/kvstow-check-base \
    --volume "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}:/etc/ssl/outer.crt:ro" \
    --volume "$CHECK_DIR/pip.conf:/etc/pip.conf:ro" . >/dev/null

say "testing it"
export CHECK_IMAGE=$IMAGE CHECK_BASE=$base
exec "${PYTHON:-.venv/bin/python}" -m pytest "$@" tests/deploy/test_{image,pods,booted}.py
