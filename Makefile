# One recipe a task, the same by hand and in CI. Everything runs from .venv, which `make` builds itself
# from requirements.lock; set PYTHON to choose the interpreter (3.11 or newer).
SHELL := /bin/bash
VENV  := .venv
BIN   := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
READY := $(VENV)/.ready-$(shell cat requirements.lock pyproject.toml lab/pyproject.toml 2>/dev/null | cksum | cut -d' ' -f1)
JDK_LOCK := requirements-java.lock
PYTEST := $(BIN)/python -m pytest
TESTED := tests src/evenflow lab/src
SEEDS ?= 2000
HAS_CHROMIUM := command -v chromium chromium-browser google-chrome >/dev/null || test -n "$$EVENFLOW_CHROMIUM"
SITE := -c 'import site; print(site.getsitepackages()[0])'

# Without bytecode every process of the tests, and every worker of Spark, compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install java chromium kafka demo test test-fast test-slow test-random test-spark simulate fuzz lint types bench docs lock clean

help: ## list the recipes
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(READY) ## build .venv from the lock

$(READY):
	@test -n "$(PYTHON)" || { echo "evenflow needs Python 3.11 or newer with the venv module; set PYTHON=/path/to/python3"; exit 2; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version); the first time this downloads about 600 MB."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar on --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable . --editable lab
	@rm -f $(VENV)/.ready-*; touch $@

java: $(READY) ## Java for Spark: the machine's own if it has 17 or newer, else one into .venv
	@$(BIN)/python -c 'from evenflow.spark.java import find_java; find_java()' 2>/dev/null || { \
		echo "No Java 17 or newer on this machine: installing one into $(VENV), about 40 MB."; \
		$(BIN)/python -m pip install --disable-pip-version-check --require-hashes --no-deps -r $(JDK_LOCK) \
		&& $(BIN)/python -c 'from evenflow.spark.java import find_java; find_java()'; }

demo: java ## a skewed stream on Spark, by key grouping and balanced: live, a table, a picture, a page
	$(BIN)/evenflow demo --serve

kafka: java ## a Kafka broker on this machine, until Ctrl-C; fetched the first time, about 45 MB
	$(BIN)/evenflow kafka up

chromium: ## a browser for the tests of the live page: Debian's, if there is none and root may install it
	@$(HAS_CHROMIUM) || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && test -z "$$EVENFLOW_OFFLINE" \
		&& echo "No Chromium on this machine: installing Debian's, about 100 MB." \
		&& { apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 \
			|| { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1; }; } \
	|| true

test: lint types java chromium ## lint, types, import contract, all tests but the long ones; at most 10 minutes
	$(BIN)/evenflow kafka fetch
	$(PYTEST) -n 3 -m "not spark and not long" $(TESTED)  # one more than cores: many wait for brokers
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m "spark and not long" tests
	@$(HAS_CHROMIUM) || echo "Not tested: the live page in a browser. There is no Chromium on this machine, and none could be installed."

test-fast: $(READY) ## the product's tests that need no JVM and no processes, in under a minute
	$(PYTEST) -q -n 2 -m "not spark and not slow and not long" --ignore=tests/lab tests src/evenflow

test-slow: java ## what takes long: many kills, every storage call, every scheme; at most 30 minutes
	$(BIN)/evenflow kafka fetch
	$(PYTEST) -n 2 -m long tests

test-random: java ## the property tests with fresh seeds and more examples; a failure prints its seed
	$(PYTEST) -q -n 2 --hypothesis-profile=random -m "not spark and not long" tests

test-spark: java ## the Spark suite on another version: make test-spark SPARK=4.1.x (or 4.1.1, 4.2)
	@set -e; asked="$(SPARK)"; version="$${asked%.x}"; \
	test -n "$$version" || { echo "name the version of Spark, such as: make test-spark SPARK=4.1.x"; exit 2; }; \
	[[ "$$version" == *.*.* ]] || version=$$($(BIN)/python -m pip index versions pyspark \
		| sed -n 's/^Available versions: //p' | tr -d ' ' | tr , '\n' | grep -m1 "^$${version//./\\.}\.") \
		|| { echo "the package index has no pyspark $(SPARK)"; exit 2; }; \
	venv=$(VENV)-spark-$$version; \
	if ! test -e $$venv/.ready; then \
		echo "Setting up $$venv with pyspark $$version, about 450 MB; it takes all else from $(VENV)."; \
		$(BIN)/python -m venv $$venv; \
		echo "import site; site.addsitedir('$$($(BIN)/python $(SITE))')" > $$($$venv/bin/python $(SITE))/locked.pth; \
		ln -sf ../../$(BIN)/tpchgen-cli $$venv/bin/; \
		$$venv/bin/python -m pip install --disable-pip-version-check pyspark==$$version; \
		touch $$venv/.ready; \
	fi; \
	$$venv/bin/python -c 'from evenflow.cli.app import main; raise SystemExit(main(["kafka", "fetch"]))'; \
	$$venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "spark and not long" tests

simulate: $(READY) ## the whole system with faults in one process: make simulate SEEDS=10000 (or 500:900)
	$(BIN)/python -m evenflow_lab.checking.simulation --seeds $(SEEDS)

fuzz: $(READY) ## everything that is parsed, on mutated inputs: make fuzz INPUTS=100000 SEED=7 (inputs per parser)
	$(BIN)/python -m evenflow_lab.cli.fuzz --inputs $(or $(INPUTS),10000) --seed $(or $(SEED),0)

lint: $(READY) ## ruff and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY) ## mypy on the package
	$(BIN)/mypy

bench: java ## ratios, measured within one run; an hour, mostly for `bench spark`
	$(BIN)/evenflow bench kernels
	$(BIN)/evenflow bench planner
	$(BIN)/evenflow bench placement
	$(BIN)/evenflow bench planning-optimum
	$(BIN)/evenflow bench placement-optimum
	$(BIN)/evenflow bench simulation
	$(BIN)/evenflow bench choices
	$(BIN)/evenflow bench drift
	$(BIN)/evenflow bench spark

docs: $(READY) ## the site, into out/site, from docs/*.md and the docstrings; warnings are errors
	$(BIN)/python docs/build.py
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs out/site
	@echo "out/site/index.html"

lock: $(READY) ## choose new versions within pyproject.toml's bounds
	$(BIN)/python -m venv $(VENV)/lock && $(VENV)/lock/bin/pip install --quiet uv
	$(VENV)/lock/bin/uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes \
		--no-emit-index-url --no-annotate --custom-compile-command "make lock" --upgrade pyproject.toml -o requirements.lock
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["java"])' \
		| $(VENV)/lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --custom-compile-command "make lock" --upgrade - -o $(JDK_LOCK)

clean: ## remove what make made
	rm -rf $(VENV) $(VENV)-spark-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache out build dist
