# `make run` and `make test` each do all set-up from a fresh clone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test setup format check bench soak clean
.DELETE_ON_ERROR:

run: setup  ## start a server on 127.0.0.1:8088 that keeps its data in ./penstock-data
	$(BIN)/penstock serve --data-dir penstock-data $(ARGS)

setup: $(VENV)/.installed  ## everything into .venv, with .venv/bin/penstock

$(VENV)/.installed: pyproject.toml src/penstock/version.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[spark,aws,testing]' --group dev
	touch $@

test: setup check  ## lint, types, layers, and every test
	$(BIN)/python -m penstock.pipeline.archive >/dev/null  # once; Java starts sooner by it
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: setup  ## what can be told without running: format, lint, types, layers
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(BIN)/python -m pytest --quiet tests/test_layers.py

format: setup  ## rewrite the sources in the project's format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: setup  ## measure; prints a table and writes build/bench.json
	$(BIN)/python -m bench $(ARGS)

soak: setup  ## the long forms of the crash suites
	$(BIN)/python -m pytest -m slow $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
