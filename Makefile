# Every target prepares its own virtual environment; a new machine needs Python 3.11+, pip and make.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
# Many tests wait for processes that they started, so one more than there are processors.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + os.cpu_count())')

.DEFAULT_GOAL := help
.PHONY: help demo test check format conformance bench torture release docs types framework-types clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

# The stamp is made again when the dependencies change. uv is used if it is installed, else pip.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@if command -v uv >/dev/null; then \
	  VIRTUAL_ENV=$(VENV) uv pip install --quiet --constraint constraints.txt --editable . --group dev; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . --group dev; \
	fi
	@touch $@

demo: $(VENV)/.ready ## twenty seconds: team A's GPU job preempts team B's, which comes back
	@$(BIN)/pykueue demo $(NAME)

test: check ## the checks, then every test (short versions of the long campaigns)
	$(BIN)/python -m pytest -n $(WORKERS) -m "not torture" --cov --cov-report=
	$(BIN)/coverage report --format=total

check: $(VENV)/.ready ## ruff, mypy strict, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.ready ## rewrite the code in the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

conformance: $(VENV)/.ready ## replay the recorded decisions of Kueue v0.19.2
	$(BIN)/pykueue conformance $(wildcard tests/conformance/decisions ../shared/conformance/decisions ../shared/conformance/upstream)

bench: $(VENV)/.ready ## small versions of the benchmarks, with figures, in two minutes
	$(BIN)/python benchmarks/run.py --small

torture: $(VENV)/.ready ## long fault and fuzz campaigns
	$(BIN)/python -m pytest -m torture

release: $(VENV)/.ready ## dist/: the package, requirements with hashes, an SBOM, and SHA256SUMS
	@if command -v uv >/dev/null; then VIRTUAL_ENV=$(VENV) uv pip install --quiet --constraint constraints.txt --group release; \
	  else $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group release; fi
	$(BIN)/python tools/release.py dist

docs: $(VENV)/.ready ## site/: the documentation as a site; writes its reference pages first
	$(BIN)/python tools/reference.py
	$(BIN)/mkdocs build

types: $(VENV)/.ready ## write the type files: OPENAPI=documents of a cluster, GO=staging/src/k8s.io of its source
	$(BIN)/python tools/kubernetes_types.py $(OPENAPI) $(GO)

framework-types: $(VENV)/.ready ## bring the job frameworks' types up to date: CRDS=folder of their CRDs
	$(BIN)/python tools/framework_types.py $(CRDS)

clean: ## remove the files that the other targets create
	rm -rf .venv dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
