# Every target makes what it needs; Python 3.11 or newer and make are enough to start.
PYTHON ?= python3
# More arguments for pytest: make test ARGS="-k deer -x"
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# All targets share one environment, and two installers must not write to it at once.
.NOTPARALLEL:

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/stamp-dev ## create .venv with the package and its development tools

.PHONY: demo
demo: $(VENV)/stamp-core ## train on handwritten digits, pixel by pixel, and write a report
	$(BIN)/lrcssm train digits --batch 32 --dropout 0.2 --learning-rate 5e-3 --out runs/demo --overwrite

.PHONY: test
test: $(VENV)/stamp-dev ## run the tests, except the slow ones
	$(PYTEST) $(ARGS)

# The slow tests too, with all extras and on the programs that users run, in the order of conftest.py: within the budget,
# and of a long list of one file no more than its share. What is left out is printed; make test-slow leaves out nothing.
BUDGET ?= 1380
SHARE ?= 20
.PHONY: test-full
test-full: $(VENV)/stamp-full ## run the slow tests too, with all extras, within a time budget
	LRCSSM_TEST_OPTIMISED=1 $(BIN)/python -m pytest -n 2 --dist load --maxschedchunk 4 --slow --budget $(BUDGET) --share $(SHARE) $(ARGS)

.PHONY: test-slow
test-slow: $(VENV)/stamp-full ## run all tests, however long it takes
	$(PYTEST) --slow $(ARGS)

.PHONY: lint
lint: $(VENV)/stamp-dev ## check style, format and types
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/python -m pyright

.PHONY: format
format: $(VENV)/stamp-dev ## correct style and format in place
	$(BIN)/python -m ruff check --fix-only
	$(BIN)/python -m ruff format

.PHONY: bench
bench: $(VENV)/stamp-bench ## measure the engine (installs PyTorch to compare with)
	$(BIN)/lrcssm benchmark engine

.PHONY: docs
docs: $(VENV)/stamp-docs ## build the documentation into site/
	$(BIN)/python -m mkdocs build --strict

.PHONY: tutorials
tutorials: $(VENV)/stamp-tutorials ## run the tutorials and write their pages into docs/tutorials
	$(BIN)/python tutorials/run.py

.PHONY: package
package: $(VENV)/stamp-release ## build sdist and wheel into dist/, and test them in an empty environment
	.ci/package $(BIN)/python

.PHONY: clean
clean: ## remove .venv, site and all caches
	rm -rf $(VENV) site build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so an interrupted installation is taken up again.
$(VENV)/stamp-core: pyproject.toml $(VENV)/stamp-python
	@echo "Installing lrcssm into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/stamp-dev $(VENV)/stamp-full $(VENV)/stamp-docs $(VENV)/stamp-bench $(VENV)/stamp-tutorials $(VENV)/stamp-release: $(VENV)/stamp-%: $(VENV)/stamp-core
	@echo "Installing lrcssm[$*] into $(VENV)"
	@$(PIP) install --editable ".[$*]"
	@touch $@

# An environment knows its own path: one that was copied, moved or has lost its Python is made anew.
ifneq ($(shell $(BIN)/python -c "" 2>/dev/null && cat $(VENV)/stamp-python 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/stamp-python
endif
$(VENV)/stamp-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "lrcssm needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing): name another one, as in make setup PYTHON=python3.12." >&2; \
	  exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "$(CURDIR)" > $@
