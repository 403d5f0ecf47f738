# Everything starts here. `make help` lists the targets.
# Settings: PYTHON=... (the interpreter), VENV=... (the environment), ARGS="..." (for the command run).

VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
JOBS ?= 3
PAGES := tests/docs
export VENV
# The tests start many hundreds of processes, each of which would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

# Any Python can start the bootstrap; it then looks for one that is new enough.
define bootstrap
@for python in python3 python python3.14 python3.13 python3.12 python3.11 "$$PYTHON"; do \
  if "$$python" -c "" >/dev/null 2>&1; then exec "$$python" tools/bootstrap.py $(1); fi; \
done; \
echo "error: no Python found. Install Python 3.11 or newer, or name one: make PYTHON=..." >&2; exit 1
endef

.DEFAULT_GOAL := help
.PHONY: help demo test check bench sim chaos venv clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## watch jobs run, on SQLite (ARGS="--seconds 5" to end by itself)
	$(call bootstrap,demo)
	@$(BIN)/foliot demo $(ARGS)

# What the pages show has been run by check, unless it is asked for again.
test: check ## check, then all other tests; brings its own PostgreSQL (ARGS="tests/test_config.py")
	@$(BIN)/python -m pytest -q -n $(JOBS) $(if $(findstring $(PAGES),$(ARGS)),,--ignore=$(PAGES)) $(ARGS)

check: venv ## lint, formatting, types, import rules, and what the docs show
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo 'run: $(BIN)/ruff format .' >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@said=$$($(BIN)/lint-imports --no-logo 2>&1) || { echo "$$said"; exit 1; }
	@said=$$($(BIN)/python -m pytest -q -n $(JOBS) $(PAGES) 2>&1) || { echo "$$said"; exit 1; }

bench: venv ## throughput and latency on a PostgreSQL of its own (ARGS="--processes 2")
	@for what in "drain --floor" submit latency; do \
	  $(BIN)/python -m foliot.testing.postgres --durable -- $(BIN)/foliot bench $$what $(ARGS) || exit 1; \
	done

sim: venv ## long simulations under seeded faults; minutes, not part of test
	@$(BIN)/python -m pytest -q -n $(JOBS) -m sim $(ARGS)

chaos: venv ## real processes and a real server, killed and cut off; minutes, not part of test
	@$(BIN)/python -m pytest -q -m chaos $(ARGS)

venv: ## make or refresh the development environment
	$(call bootstrap,dev)

clean: ## remove the environment and everything made by tools
	@if [ -e $(VENV)/.foliot-demo ] || [ -e $(VENV)/.foliot-dev ]; then rm -rf $(VENV); fi
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
