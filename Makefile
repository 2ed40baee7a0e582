# The two commands: `make serve` and `make test`. Everything else is a part of them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# PyPI's torch is a CUDA build of gigabytes; point this at PyTorch's CPU index to get the small one.
TORCH_INDEX_URL ?=
SERVE_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help serve test test-all test-timm test-tensorrt-rtx check export install install-dev doctor lock clean

help:
	@echo "make serve     install, export the default models, start the server (127.0.0.1:8000 HTTP, 8001 gRPC)"
	@echo "make test      lint, types and the test suite, with real servers on free ports"
	@echo "make test-all  the same with the slow matrices"
	@echo "make test-timm installs timm, and tests the export of its checkpoints"
	@echo "make test-tensorrt-rtx  installs TensorRT-RTX, and tests what builds plans with it"
	@echo "make doctor    what this machine would have trouble with, and how to fix it"
	@echo "make export    export the default models without starting the server"
	@echo "make clean     remove the environment, caches and exported artifacts"

serve: export
	@exec $(BIN)/trireme serve $(SERVE_ARGS)

export: $(VENV)/.serve
	@$(BIN)/trireme export embed guard vision

doctor: $(VENV)/.serve
	@$(BIN)/trireme doctor

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy client/trireme_client client/trireme_bench server/trireme_server export/trireme_export \
		backends/shared/trireme_triton backends/stages/trireme_stages backends/onnxruntime/trireme_network
	for backend in stages onnxruntime openvino aoti; do $(BIN)/mypy backends/$$backend/model.py || exit 1; done

test: check $(VENV)/.dev
	@$(BIN)/trireme export embed guard vision
	$(BIN)/pytest -m "not slow and not gpu"

test-all: check $(VENV)/.dev
	@$(BIN)/trireme export embed guard vision
	$(BIN)/pytest

# Not in the locks: torchvision must be built for the torch that is installed.
test-timm: $(VENV)/.dev
	$(BIN)/pip install --disable-pip-version-check torchvision $(if $(TORCH_INDEX_URL),--index-url $(TORCH_INDEX_URL))
	$(BIN)/pip install --disable-pip-version-check "timm>=1.0"
	$(BIN)/pytest tests/export/test_own_timm.py

# Not in the locks: 96 MB that only those need who build plans for GPUs. Its version is the extra's.
test-tensorrt-rtx: $(VENV)/.dev
	$(BIN)/pip install --disable-pip-version-check --editable '.[tensorrt-rtx]'
	$(BIN)/pytest -m "not gpu" tests/export/test_tensorrt.py

install: $(VENV)/.serve

install-dev: $(VENV)/.dev

$(BIN)/python:
	@echo "== creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# The role locks carry hashes; torch alone is outside, since its build differs from machine to machine.
$(VENV)/.serve: requirements/server.lock requirements/export.lock pyproject.toml | $(BIN)/python
	@echo "== installing the server and the exporter"
	@$(BIN)/pip install --disable-pip-version-check --require-hashes -r requirements/server.lock -r requirements/export.lock
	@$(BIN)/pip install --disable-pip-version-check torch==2.13.0 $(if $(TORCH_INDEX_URL),--index-url $(TORCH_INDEX_URL))
	@$(BIN)/pip install --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.serve
	@echo "== installing the test tools"
	@$(BIN)/pip install --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

lock: $(VENV)/.dev
	PATH=$(abspath $(BIN)):$$PATH requirements/lock.sh

clean:
	rm -rf $(VENV) .cache .run .pytest_cache .mypy_cache .ruff_cache
	rm -rf model_repository/*/[0-9]* model_repository/*/active
