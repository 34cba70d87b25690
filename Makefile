# Every target sets up .venv first when it is missing or older than the pins.
PYTHON ?= python3
FUZZ_S ?= 300
BIN := .venv/bin
STAMP := .venv/.stamp
PIP := $(BIN)/pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak check test-gpu bench fuzz golden clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-9s %s\n", $$1, $$2}' Makefile

setup: $(STAMP) ## make .venv from requirements.lock

# The packages of released models declare more than is installed, so `pip check` comes before them.
$(STAMP): requirements.lock requirements-models.lock pyproject.toml runtime_stub/pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) uninstall -qqq --yes -r requirements-models.lock
	$(PIP) install --quiet -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation -e runtime_stub -e .
	$(PIP) check
	$(PIP) install --quiet --no-deps -r requirements-models.lock
	@touch $@

demo: $(STAMP) ## compile Silero VAD, replay a recording in a fresh process, compare with the stock model
	$(call script,scripts/demo.py)

test: $(STAMP) ## run the tests (no soak or gpu)
	$(BIN)/pytest -q -n 2 -m "not soak and not gpu"

soak: $(STAMP) ## run the long tests
	$(BIN)/pytest -q -m soak

check: $(STAMP) ## lint, format, security rules, strict types, known vulnerabilities
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python scripts/audit.py

test-gpu: $(STAMP) ## run the tests that need a CUDA device
	$(BIN)/pytest -q -m gpu

bench: $(STAMP) ## time the replay of Silero VAD against the stock model, recording, diff and validation
	$(call script,scripts/bench_silero.py)
	$(call script,scripts/bench_recorder.py)
	$(call script,scripts/bench_diff.py)
	$(call script,scripts/bench_validate.py)

fuzz: $(STAMP) ## feed random plans, specs and modules for FUZZ_S seconds
	$(BIN)/python scripts/fuzz.py --seconds $(FUZZ_S)

golden: $(STAMP) ## write today's plans beside the golden ones, never over them
	$(call script,scripts/golden.py)

clean: ## remove .venv and everything that the other targets made
	rm -rf .venv .cache .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist
	rm -rf *.egg-info runtime_stub/*.egg-info runtime_stub/build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define script
@test -f $(1) || { echo "$@: $(1) is not written yet" >&2; exit 1; }
@$(BIN)/python $(1)
endef
