# Everything a newcomer or CI needs. Only python3 (3.10 or newer, with venv) and make have to be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# A virtual environment cannot be moved. The stamp holds the folder it was made in; elsewhere it is made anew.
MADE_IN := $(shell cat $(STAMP) 2>/dev/null)
MOVED := $(if $(MADE_IN),$(filter-out "$(CURDIR)","$(MADE_IN)"))

.DEFAULT_GOAL := help
.PHONY: help demo test check fast lint types contracts format setup clean distclean FORCE

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: setup ## the whole way on the small model that ships with the package; writes demo-out/
	$(BIN)/vit-edge demo -o demo-out

test: lint types contracts ## everything: lint, types, import contracts, all tests
	$(BIN)/python -m pytest

check: lint types contracts ## the same without the slow tests
	$(BIN)/python -m pytest -m "not slow"

fast: setup ## only the tests that are neither slow nor need real data
	$(BIN)/python -m pytest -m "not slow and not real"

lint: setup ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup ## mypy --strict over the whole package
	$(BIN)/mypy -p vit_edge

contracts: setup ## import-linter: which package may import which
	$(BIN)/lint-imports

format: setup ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

setup: $(STAMP) ## install into .venv what is missing

$(STAMP): pyproject.toml constraints.txt $(if $(MOVED),FORCE)
	@command -v $(PYTHON) >/dev/null || { \
		echo "error: $(PYTHON) not found; run: apt install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "error: $$($(PYTHON) -V 2>&1) found, 3.10 or newer needed; run: apt install python3.11 python3.11-venv, then: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "error: $(PYTHON) has no venv module; run: apt install python$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" >&2; exit 1; }
	@rm -f $(STAMP)
ifneq ($(MOVED),)
	@echo "$(VENV) was made in another folder and is made anew"
	@rm -rf $(VENV)
endif
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		echo "making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "installing vit-edge and its tools into $(VENV); the first time takes some minutes"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@echo "$(CURDIR)" > $(STAMP)

clean: ## remove what builds, tests and the demo leave behind
	rm -rf build dist demo-out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv
	rm -rf $(VENV) vit_edge.egg-info
