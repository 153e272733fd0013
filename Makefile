# `make` lists what there is. Needs Python 3.11 or newer with venv, nothing else: the rest goes into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=

# Compiled modules are kept, also where the environment forbids it: the tests start hundreds of interpreters.
export PYTHONDONTWRITEBYTECODE :=

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run demo-program native test quick extras-test ray-test browser check lint types imports docs docs-check audit wheel lock bench clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/ready-local ## set up and optimize the clickbait prompt on the embedded model (more flags: ARGS='--seed 1')
	@$(BIN)/autoprompt run --dataset clickbait.jsonl --model local --preset quick $(ARGS)

test: $(VENV)/ready-dev ## set up and run the tests (ARGS='tests/stats')
	@$(BIN)/python -m pytest -n 2 $(ARGS)

quick: $(VENV)/ready-dev ## the tests that take less than 0.04 s each (ARGS=--record-slow finds them anew)
	@$(BIN)/python -m pytest -n 2 -m 'quick and not live and not ray' $(ARGS)

browser: ## install Chromium for the tests of the pages, where there is none (Debian, as root)
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null \
		&& command -v chromium; \
	else echo "no Chromium, and no way to install it here: the tests of the pages will be skipped"; exit 1; fi

demo-program: $(VENV)/ready-local ## optimize a LangGraph graph on the embedded model (examples/; more flags: ARGS='--seed 1')
	@$(BIN)/python examples/demo.py $(ARGS)

native: $(VENV)/ready-local ## build the embedded runtime for this processor (7 minutes; twice as fast with AVX-512)
	@$(BIN)/pip install --quiet cmake
	PATH="$$($(BIN)/python -c 'import cmake; print(cmake.CMAKE_BIN_DIR)'):$$PATH" CMAKE_ARGS="-DLLAMA_LLGUIDANCE=OFF -DLLAMA_BUILD_BORINGSSL=OFF" \
		$(BIN)/pip install --force-reinstall --no-deps --no-binary xllamacpp xllamacpp
	@$(BIN)/python -c 'import xllamacpp; print(xllamacpp.get_system_info())'

ray-test: $(VENV)/ready-dev,ray ## a batch over a Ray cluster of two nodes here, with killed workers (minutes)
	@$(BIN)/python -m pytest -m ray tests/batch/test_ray.py $(ARGS)

extras-test: $(VENV)/ready-dev,science,parquet ## the tests that pandas and pyarrow are needed for: `make test` skips them
	@$(BIN)/python -m pytest tests/optimizer/test_scientific_analyst.py tests/science tests/dataset/test_reading.py tests/dataset/test_too_large.py tests/dataset/test_tables.py tests/test_notebooks.py $(ARGS)

check: lint types imports docs-check audit test ## everything that must hold before a commit

lint: $(VENV)/ready-dev ## format and lint
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml autoprompt/cli/starter/prompt-check.yml
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-actions action.yml
	@echo "lint: ok"

types: $(VENV)/ready-dev ## mypy, strict
	@$(BIN)/mypy --no-error-summary
	@echo "types: ok"

imports: $(VENV)/ready-dev ## who may import whom (.importlinter)
	@$(BIN)/lint-imports --no-cache --no-logo

audit: $(VENV)/ready-dev ## report known vulnerabilities of the installed packages; never fails
	@$(BIN)/python .ci/audit.py

docs: $(VENV)/ready-dev ## write the generated pages and build the site (site/index.html)
	@$(BIN)/python docs/write_reference.py
	@$(BIN)/python docs/pictures.py
	@$(BIN)/zensical build --strict

docs-check: $(VENV)/ready-dev ## are the generated pages up to date, and does every link of the site lead somewhere
	@$(BIN)/python docs/write_reference.py --check
	@$(BIN)/zensical build --strict
	@echo "docs: ok"

wheel: $(VENV)/ready-dev ## build the package, and use it from a clean environment (ARGS=dist keeps it)
	@$(BIN)/python .ci/wheel.py $(ARGS)

lock: ## resolve requirements-dev.txt anew: what `make test` installs, with hashes
	@$(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install --quiet uv
	@.cache/uv/bin/uv pip compile pyproject.toml --extra dev --extra docs --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --quiet --upgrade --output-file requirements-dev.txt

bench: $(VENV)/ready-local ## list the benchmarks, or run one (NAME=startup ARGS='...')
ifdef NAME
	@$(BIN)/python benchmarks/$(NAME).py $(ARGS)
else
	@for file in $$(grep -l __main__ benchmarks/*.py); do \
		name=$$(basename "$$file" .py); \
		printf '  make bench NAME=%-16s %s\n' "$$name" "$$(sed -n '1s/^"""//; 1s/"""$$//; 1p' "$$file")"; \
	done
endif

clean: ## remove .venv and the caches of the tools; runs and memory stay
	@rm -rf $(VENV) site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	@find autoprompt tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# What develops and checks this package: the versions of the lock file, by their hashes.
$(VENV)/ready-dev: pyproject.toml requirements-dev.txt | $(BIN)/python
	@printf 'installing autoprompt[dev,docs] into $(VENV) '
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes --requirement requirements-dev.txt \
		| awk '{printf "."; fflush()} END {print " done"}'
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --editable .
	@touch $@

# A stamp for each set of extras: pip runs again when pyproject.toml changed, and only then.
$(VENV)/ready-%: pyproject.toml | $(BIN)/python
	@printf 'installing autoprompt[%s] into $(VENV) ' '$*'
	@$(BIN)/python -m pip install --disable-pip-version-check --editable '.[$*]' \
		| awk '{printf "."; fflush()} END {print " done"}'
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "no '$(PYTHON)': install Python 3.11 or newer, or make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is $$($(PYTHON) -V 2>&1); 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
