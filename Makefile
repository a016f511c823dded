# candle-rocm: `make help` lists the targets.

CANDLE ?= 0.11.1
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin

# One cargo profile and one target folder for everything: fast enough to test, small enough to keep.
export CARGO_PROFILE_DEV_OPT_LEVEL ?= 1
export CARGO_PROFILE_DEV_DEBUG ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup generate test unit releases lint format regen bench clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Make the virtual environment with everything in it.

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

generate: setup ## Generate the ROCm backend for CANDLE (0.11.1), show its sites, check that it compiles.
	$(BIN)/candle-rocm generate $(CANDLE)
	$(BIN)/candle-rocm scan $(CANDLE)
	$(BIN)/candle-rocm verify $(CANDLE) --only check-off --only check-on

test: setup unit releases ## Run every test: the tool's own, then the patched Candle releases with cargo.

unit: setup ## Run the tool's own tests (seconds).
	$(BIN)/pytest -n auto tests/unit tests/golden

releases: setup ## Patch, build and test real Candle releases (RELEASES="0.9.1 0.11.1" narrows them).
	$(BIN)/pytest tests/releases

lint: setup ## ruff, mypy --strict, import-linter and the specs.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/candle-rocm spec lint

format: setup ## Format the Python sources.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

regen: setup ## Write again what is generated and committed (goldens, generated/).
	$(BIN)/pytest -q tests/golden --update-goldens

bench: setup ## Time scan, plan and render of CANDLE, a second run, and --help; memory peak.
	$(BIN)/python -m benchmarks.generator $(CANDLE)

clean: ## Remove the virtual environment and build output.
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis generated/[0-9]*
