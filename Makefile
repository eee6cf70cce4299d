# Two commands: `make demo` runs the main job from raw input to an exported model, `make test` the tests.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Twice the cores of the smallest machine: a test that waits for a server, a Ray or a killed process leaves its core to others.
TEST_WORKERS ?= 4
export PYTHONPATH := $(CURDIR)
export DO_NOT_TRACK := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false

.PHONY: help setup demo test test-cluster fuzz lint types contracts hygiene audit sbom docs check mutants clean

help:  ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.installed  ## Create .venv with the pinned packages

$(VENV)/.installed: pyproject.toml constraints.txt infra/setup.sh .ci/requirements.py .ci/command.py
	@infra/setup.sh $(PYTHON) $(VENV)
	@touch $@

demo: setup  ## Templated articles of a real knowledge graph in, a pre-trained eHealth model out
	@$(BIN)/python -m flows run pretrain/ehealth-tiny

test: setup  ## Run the tests, four files at a time, those that take longest first
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder

test-cluster: setup  ## Tests of faults: Ray nodes, a Prefect server and an S3 server on loopback, killed in mid-run; minutes
	@$(BIN)/python -m pytest -m cluster tests/cluster tests/journeys/test_object_store.py

FUZZ_SECONDS ?= 60

fuzz: setup  ## An hour of hostile files, 60 s for each of some 60 targets; FUZZ_SECONDS=5 is five minutes
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest tests/fuzz --timeout=0

lint: setup  ## ruff: rules and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup  ## mypy
	@$(BIN)/mypy

contracts: setup  ## import-linter: who may import whom
	@$(BIN)/lint-imports

hygiene: setup  ## constraints.txt holds only versions; no tracked file holds a path of a machine
	@$(BIN)/python .ci/hygiene.py

audit: setup  ## pip-audit: known vulnerabilities of the pins, where the database can be reached
	@$(BIN)/python .ci/audit.py

sbom: setup  ## The software bill of materials, CycloneDX in build/sbom.json
	@$(BIN)/python .ci/sbom.py build/sbom.json

docs: setup  ## The documentation site, in site/; a broken link, an orphan or a foreign address is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

check: lint types contracts hygiene audit sbom docs test  ## All of the above, as CI runs it

mutants: setup  ## Small errors in the modules that decide results: which of them no test notices (an hour; resumes)
	@$(BIN)/python -m tests.mutants --all --count 10 --folder build/mutants --output build/mutants.md

clean:  ## Remove the environment and caches (artifacts stay)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
