# semimedref: every target sets up what it needs by itself, and nothing again when that is done.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
QUICK  := experiment=quickstart
# Of the tests; a fifth of their time is waiting, so three keep two cores busy.
WORKERS ?= 3

.PHONY: help setup run test test-fast lint bench gpu-check clean constraints
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | awk -F: '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY)  ## virtual environment with exact versions

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "semimedref needs Python 3.11; found: $$($(PYTHON) --version 2>&1). Set PYTHON=/path/to/python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: setup  ## train, tabulate and show the quickstart on the phantom
	$(BIN)/semimedref train -m $(QUICK)
	$(BIN)/semimedref table $(QUICK)
	@echo "The report, for a browser:"
	@$(BIN)/semimedref report $(QUICK)

test: setup lint  ## lint, types and all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-fast: setup  ## unit tests alone, for the inner loop: about two minutes
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow'

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup  ## speed as ratios against the obvious way
	$(BIN)/python -m benchmarks

gpu-check: setup  ## the first hour on a GPU, right, repeatable, fast? a report to send
	@$(BIN)/semimedref gpu-check

constraints: setup  ## renew constraints.txt from what is installed
	@{ echo "# Exact versions of everything that is installed, so that two machines get the same."; echo "# Renewed by: make constraints"; $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu//' | sort -f; } > constraints.new && mv constraints.new constraints.txt

clean:  ## remove the virtual environment and caches; runs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist
