FROM python:3.11-slim AS builder

RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels '.[server,cli]'


FROM python:3.11-slim

ARG VERSION=0.1.0
ARG REVISION
LABEL org.opencontainers.image.title="kvstow" \
      org.opencontainers.image.description="Keeps KV-cache blocks in host memory for inference engines" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

RUN --mount=type=bind,from=builder,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels 'kvstow[server,cli]'

# The socket is for one user: engines run under this user id too, with /run/kvstow, the IPC and the
# PID namespace shared.
RUN groupadd --gid 10001 kvstow \
    && useradd --uid 10001 --gid kvstow --no-create-home kvstow \
    && install --directory --owner kvstow --group kvstow /run/kvstow
USER kvstow
VOLUME /run/kvstow

# A socket elsewhere has to be named by KVSTOW_SOCKET, for this to find it.
HEALTHCHECK --interval=30s --timeout=10s --start-period=10s \
    CMD kvstow status --target "unix:${KVSTOW_SOCKET:-/run/kvstow/kvstow.sock}" || exit 1

ENTRYPOINT ["kvstowd"]
