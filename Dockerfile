# kvstowd and its command line, for nodes with GPUs and without: the driver, where there is one, comes from the node.
# docs/deploy/containers.md says how to build and run it.
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS builder
# A compiler of the distribution is as good as another: nothing of it but the copy kernel gets into the image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# Without the kernel the daemon copies slower, and an engine that truncates its memory ends it.
RUN python3 -m venv --without-pip /opt/kvstow \
    && python3 -m pip --python /opt/kvstow/bin/python install --no-cache-dir '.[server,cli]' \
    && test -n "$(find /opt/kvstow -name _copy_spans.so)"


FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kvstow" \
      org.opencontainers.image.description="Keeps KV-cache blocks in host memory for inference engines" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY --from=builder /opt/kvstow /opt/kvstow
# The socket is for one user: engines run under this user id too. A volume that is mounted here must be theirs.
RUN groupadd --gid 10001 kvstow \
    && useradd --uid 10001 --gid kvstow --no-create-home --shell /usr/sbin/nologin kvstow \
    && install --directory --owner kvstow --group kvstow --mode 0700 /run/kvstow
USER 10001:10001
VOLUME /run/kvstow

# on: for nodes with GPUs alone, it does not start without. off: without any. auto: with those that there are.
ARG CUDA=auto
# The NVIDIA runtime brings in what the last one names, where there is one.
ENV PATH="/opt/kvstow/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    KVSTOW_CUDA="${CUDA}" \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# Process 1 is the daemon itself: it handles its signals, and starts no process that would have to be reaped.
# Healthy is a daemon that takes work; it is asked where the settings of the environment put its socket.
HEALTHCHECK --interval=30s --timeout=10s --start-period=15m \
    CMD ["python", "-m", "kvstow.server.rpc.health_check"]
ENTRYPOINT ["kvstowd"]
