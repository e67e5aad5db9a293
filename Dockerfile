# syntax=docker/dockerfile:1
# hadolint global ignore=DL3042,DL3025
# The service and every command, with the miniature world's weights. docs/deploying.md tells
# how to build it for processors, for CUDA and for Ray.
# constraints.txt holds what the tests pass with under this version of Python.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
# Where torch comes from. https://pypi.org/simple has the wheel for CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# Extras of pyproject.toml, with commas between them.
ARG EXTRAS=postgres,tracing
ENV PIP_CACHE_DIR=/var/cache/pip \
    PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/scenewright
ENV PATH=/opt/scenewright/bin:$PATH
WORKDIR /src
COPY constraints.txt ./
# By itself and without what it needs: torch's own index has few versions of other packages, and
# the pip below then finds torch there and leaves it.
RUN --mount=type=cache,target=/var/cache/pip \
    pip install --no-deps --index-url "${TORCH_INDEX}" "torch$(sed -n 's/^torch==/==/p' constraints.txt)"
COPY pyproject.toml README.md LICENSE ./
# What the package needs is a layer of its own, which a change of the code leaves as it is.
RUN --mount=type=cache,target=/var/cache/pip \
    mkdir -p scenewright/core && touch scenewright/__init__.py && \
    echo 'VERSION = "0"' > scenewright/core/version.py && \
    pip install -c constraints.txt ".[${EXTRAS}]"
COPY scenewright/ scenewright/
RUN --mount=type=cache,target=/var/cache/pip \
    pip install --no-deps --force-reinstall . && pip check

FROM python:${PYTHON}-slim-bookworm
# tini hands signals on and reaps what ends; wget asks for the health, here and under KubeRay.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends tini wget && \
    rm -rf /var/lib/apt/lists/* && \
    groupadd --gid 10001 scenewright && \
    useradd --uid 10001 --gid scenewright --no-create-home --home-dir /var/lib/scenewright \
      --shell /usr/sbin/nologin scenewright && \
    mkdir -p /srv/scenewright && \
    install --directory --owner=scenewright --group=scenewright --mode=0750 /var/lib/scenewright
COPY --from=build /opt/scenewright /opt/scenewright
# Whatever is written lies in one folder. LangGraph rebuilds no type from a run's checkpoint but
# those that its graph's state declares.
ENV PATH=/opt/scenewright/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/scenewright \
    HF_HOME=/var/lib/scenewright/models \
    XDG_CACHE_HOME=/var/lib/scenewright/cache \
    XDG_DATA_HOME=/var/lib/scenewright/share \
    LANGGRAPH_STRICT_MSGPACK=true \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    SCENEWRIGHT_RUNS=/var/lib/scenewright/runs \
    SCENEWRIGHT_SERVICE_HOST=0.0.0.0 \
    SCENEWRIGHT_SERVICE_PORT=8642 \
    SCENEWRIGHT_SERVICE_DATA=/var/lib/scenewright/data \
    SCENEWRIGHT_SERVICE_LOG_FORMAT=json
# scenewright.toml is looked for here.
WORKDIR /srv/scenewright
USER 10001:10001
VOLUME /var/lib/scenewright
EXPOSE 8642
HEALTHCHECK --interval=15s --timeout=5s --start-period=90s --retries=4 \
  CMD wget --quiet --tries=1 --timeout=4 --output-document=/dev/null \
    "http://127.0.0.1:${SCENEWRIGHT_SERVICE_PORT}/readyz"
ENTRYPOINT ["tini", "--", "scenewright"]
CMD ["serve"]
