# Everything runs in a virtual environment of the checkout's own, made on first use.
# Needed: make and Python 3.11 or newer (`make PYTHON=python3.12 test` chooses one).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PROJECTS := pyproject.toml $(sort $(wildcard plugins/*/pyproject.toml))
PLUGINS := $(patsubst %/pyproject.toml,%,$(filter plugins/%,$(PROJECTS)))
# Python compiles what is imported; to compile all of PyTorch takes longer than to install it.
PIP := $(BIN)/python -m pip install --quiet --no-compile
# What tests draw by: the same numbers all day, and again with `make test SEED=...`.
SEED ?= $(shell date -u +%Y%m%d)
# Plugins by name: pytest would rewrite the assertions of every module of a package that has one.
PYTEST = NETCL_TEST_SEED=$(SEED) $(BIN)/python -m pytest --disable-plugin-autoload \
    -p netcl-kit -p hypothesispytest --hypothesis-seed=$(SEED) -q --jobs $(WORKERS)
SHARD ?= 1/1
WORKERS ?= 2
COUNT ?= 10000
DEVICE ?= numpy
LEVEL ?= run
WHEELS ?= netcl_[!c]*.whl
ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# With it in the environment, each process would compile all of Python's sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-fast nightly packages lint format bench docs site \
        market market-wheels market-records market-catalogue manifests op-table mutants fuzz sizes clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      train the digits network on the best device here"
	@echo "make test      run the tests of every day (ARGS='-k name' picks some)"
	@echo "make nightly   run every test with all its parameters (SHARD=1/4 runs a quarter of the files)"
	@echo "make packages  build every wheel and sdist, install and test each in a clean environment"
	@echo "make test-fast run the tests nearest to what differs from main, for at most 90 s"
	@echo "make lint      ruff, the format, and mypy --strict on core and plugins"
	@echo "make format    let ruff format the code and repair what it can"
	@echo "make docs      write what is generated, then check and run the documentation"
	@echo "make site      build the site of the documentation in build/site (strict), with what make market made"
	@echo "make market    build every wheel, the record of its check (LEVEL=run) and a catalogue of them"
	@echo "make manifests write every plugin's netcl_plugin.toml from what it registers (part of docs)"
	@echo "make op-table  run every op's cases on every runtime here and write docs/ops.md (minutes)"
	@echo "make mutants   break every op and the engine and write docs/mutants.md (12 minutes)"
	@echo "make fuzz      run COUNT random programs (10000) eagerly, compiled and by PyTorch (DEVICE=numpy)"
	@echo "make bench     compare with other libraries (ARGS='mlp gpt' picks; record and drawing in build/)"
	@echo "make sizes     print the lines of code of each room and plugin"
	@echo "make setup     only make the environment ($(VENV))"
	@echo "make clean     remove the environment and everything that was built"

# -- the environment: each stamp is as new as what it installed ------------------------

$(STAMPS)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "netcl needs Python 3.11 or newer: make PYTHON=<interpreter> ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS)
	@touch $@

# The build backend is installed once instead of once per package (--no-build-isolation).
$(STAMPS)/runtime: $(STAMPS)/python $(PROJECTS)
	$(PIP) hatchling editables
	$(PIP) --no-build-isolation -e '.[cpu]' $(addprefix -e ./,$(PLUGINS))
	@# A check can write no byte code: without any, each of its processes compiles for 3 s.
	@$(BIN)/python -m compileall -q -j 2 netcl_core plugins/*/src $(VENV)/lib || true
	@touch $@

$(STAMPS)/dev: $(STAMPS)/runtime
	$(PIP) 'netcl-core[dev]'
	@touch $@

# Tests compare with PyTorch where it is there; without it they skip those comparisons.
$(STAMPS)/reference: $(STAMPS)/dev
	@echo "$(PIP) 'netcl-core[reference]'"
	@if $(PIP) --retries 1 'netcl-core[reference]'; then touch $@; \
	 else echo "make: PyTorch could not be installed; tests that compare with it are skipped"; fi

setup: $(STAMPS)/runtime

# -- what a contributor runs -----------------------------------------------------------

demo: $(STAMPS)/runtime
	$(BIN)/netcl train digits

test: $(STAMPS)/reference
	$(PYTEST) -m "not packaging" $(ARGS)

test-fast: $(STAMPS)/reference
	PYTHONPATH=tests/support $(PYTEST) -p nearest -m "not packaging" $(ARGS)

nightly: $(STAMPS)/reference
	$(PYTEST) --nightly --netcl-level run --shard $(SHARD) $(ARGS)

packages: $(STAMPS)/reference
	$(PYTEST) -m packaging $(ARGS)

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMPS)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

manifests: $(STAMPS)/dev
	$(BIN)/python tests/support/manifests.py

docs: manifests
	PYTHONPATH=benchmarks $(BIN)/python tests/support/generate.py
	$(PYTEST) tests/test_docs.py $(ARGS)

# In an environment of its own: what builds pages is no part of what runs netcl.
build/site-tools: $(STAMPS)/python pyproject.toml
	$(PYTHON) -m venv $@
	@$@/bin/python -m pip install --quiet --no-compile --retries 1 $(shell $(PYTHON) -c 'import tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["site"])') \
	    || rm -rf $@
	@[ ! -d $@ ] || touch $@

site: build/site-tools $(STAMPS)/dev
	@rm -rf build/op-pages
	@PYTHONPATH=tests/support $(BIN)/python tests/support/op_pages.py build/op-pages
	@if [ -x build/site-tools/bin/mkdocs ]; then \
	    NO_MKDOCS_2_WARNING=1 build/site-tools/bin/mkdocs build --quiet --config-file .ci/site/mkdocs.yml \
	    && echo "look at it: $(PYTHON) -m http.server --directory build/site"; \
	 else echo "make: mkdocs could not be installed; the site was not built"; fi

# What a release is: the wheels, and beside them what was checked of each.
market: market-wheels market-records market-catalogue

market-wheels: $(STAMPS)/dev
	rm -rf build/market
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/market/wheels . $(addprefix ./,$(PLUGINS))

market-records: $(STAMPS)/dev
	@mkdir -p build/market/records
	cd build/market/wheels && $(abspath $(BIN))/netcl plugins check $(WHEELS) --level $(LEVEL) --jobs $(WORKERS) --out ../records

market-catalogue: $(STAMPS)/dev
	$(BIN)/netcl catalogue build --wheels build/market/wheels --records build/market/records \
	    --other netcl-core --out build/market/site

op-table: $(STAMPS)/reference
	$(BIN)/python tests/support/op_table.py

mutants: $(STAMPS)/reference
	$(BIN)/python tests/support/mutant_table.py
	$(BIN)/python tests/support/engine_faults.py --write

sizes:
	@$(PYTHON) tests/support/sizes.py

fuzz: $(STAMPS)/reference
	NETCL_CACHE_DIR='$(CURDIR)/build/fuzz-cache' $(BIN)/python tests/support/fuzz.py $(COUNT) \
	    --device $(DEVICE) --processes $(WORKERS) $(ARGS)

bench: $(STAMPS)/reference
	@mkdir -p build
	$(BIN)/python benchmarks --json build/bench.json --svg build/bench.svg $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
