# `make run` and `make test` each do all set-up from a fresh clone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := DIST_EXTRA_CONFIG=$(CURDIR)/scripts/stored-wheels.cfg \
	$(BIN)/python -m pip install --quiet

.PHONY: run demo demo-check test chromium setup format check docs bench soak clean
.DELETE_ON_ERROR:

run: setup  ## start a server on 127.0.0.1:8088 that keeps its data in ./penstock-data
	$(BIN)/penstock serve --data-dir penstock-data $(ARGS)

demo: $(VENV)/.demo  ## a plant, a cloud, a server and its console on this machine, until Ctrl-C
	@$(BIN)/penstock demo $(ARGS)

demo-check: $(VENV)/.demo  ## the same for a minute without a person; every message is counted
	@$(BIN)/penstock demo --check $(ARGS)

# Only what the demo needs, and Java where there is none. Python compiles what it loads by itself.
$(VENV)/.demo: pyproject.toml src/penstock/version.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test $(VENV)/.installed -nt pyproject.toml || { \
		echo "Installing what the demo needs: 500 MB, most of it Spark, about a minute ..."; \
		$(PIP_INSTALL) --no-compile \
			--editable ".[spark,aws,testing$$(command -v java >/dev/null || echo ,java)]"; }
	@touch $@

setup: $(VENV)/.installed  ## everything into .venv, with .venv/bin/penstock

$(VENV)/.installed: pyproject.toml src/penstock/version.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(PIP_INSTALL) --editable '.[spark,aws,testing]' --group dev
	touch $@

test: setup chromium check  ## lint, types, layers, and every test
	$(BIN)/python -m penstock.pipeline.archive >/dev/null  # once; Java starts sooner by it
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

chromium:  ## the browser that the console is tested with: Debian's package, where there is none
	@for name in chromium chromium-browser google-chrome chrome; do \
		command -v $$name >/dev/null && exit 0; \
	done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "Install Chromium for the tests of the console: apt-get install chromium" >&2; exit 0; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	mkdir -p build; { apt-get update && apt-get install --yes --no-install-recommends chromium; } >build/chromium.log 2>&1 \
		|| { tail -3 build/chromium.log >&2; exit 1; }

check: setup docs  ## what can be told without running: format, lint, types, layers, documents
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(BIN)/python -m pytest --quiet tests/test_layers.py

docs: setup  ## the documents as pages, in build/site; a link that leads nowhere is an error
	NO_COLOR=1 $(BIN)/zensical build --strict

format: setup  ## rewrite the sources in the project's format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: setup  ## measure; prints a table and writes build/bench.json
	$(BIN)/python -m bench $(ARGS)

soak: setup  ## the long forms of the crash suites
	$(BIN)/python -m pytest -m slow $(ARGS)

clean:
	rm -rf $(VENV) build dist .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
