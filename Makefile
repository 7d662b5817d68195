# Two targets matter to a newcomer: `make demo` and `make test`. Both set up .venv by themselves.
.PHONY: demo test test-all setup setup-dev lint types tests tests-long tests-load docs bench soak versions lock clean

# A half-made .venv is made again.
.DELETE_ON_ERROR:
VENV := .venv
PY := $(VENV)/bin/python
# Debian's Python has no `ensurepip` without the package python3-venv.
NEW_ENOUGH := -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
# The first interpreter on the path that is new enough; override with `make PYTHON=/path/to/python`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do $$p $(NEW_ENOUGH) && { echo $$p; break; }; done)
PIP := $(PY) -m pip --disable-pip-version-check --no-input --quiet

demo: setup
	@$(PY) -m gatemini demo

test: setup-dev lint types tests
# What `make test` leaves out: the long tier, the tests that need the machine to themselves, ten minutes of load, every interpreter. It takes more than an hour.
test-all: test tests-long tests-load soak versions

setup: $(VENV)/.run
setup-dev: $(VENV)/.dev

$(PY):
	@test -n "$(PYTHON)" && "$(PYTHON)" $(NEW_ENOUGH) || { \
		echo "$(or $(PYTHON),no python3 on the path) is not Python 3.11 or newer with venv and pip." >&2; \
		echo "Install it (Debian, Ubuntu: python3-venv), or: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

$(VENV)/.run: $(PY) requirements/run.txt pyproject.toml
	@echo "installing the locked requirements into $(VENV) (once)"
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@echo "installing the locked development requirements into $(VENV) (once)"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

lint: setup-dev
	$(VENV)/bin/lint-imports --no-logo
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: setup-dev
	$(PY) -m mypy

# One process more than there are processors, four at most (or WORKERS=N): a third of the time of a test is waiting for processes
# and clocks. An idle one takes over tests of the others. Bytecode is kept whatever the environment says: the tests start hundreds
# of processes, and each would spend a fifth of a second on compiling.
# A test that hangs is ended with the stacks of its threads and counts as failed.
tests tests-long: export PYTHONDONTWRITEBYTECODE :=
WORKERS ?= $(shell $(PY) -c 'import os; print((os.cpu_count() or 1) + 1)')
PYTEST = $(PY) -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal \
	-o faulthandler_timeout=400 -o faulthandler_exit_on_timeout=true

tests: setup-dev
	$(PYTEST) -m "not long and not load"

# The tests marked `long`, and those over generated examples once more with many of them (hypothesis marks them itself).
# BUDGET=SECONDS skips the tests that were not started by then.
tests-long: setup-dev
	$(PYTEST) -m "(long or hypothesis) and not load" --hypothesis-profile many $(if $(BUDGET),--budget $(BUDGET))

# The tests marked `load` compare times, one after the other, on a machine that does nothing else.
tests-load: setup-dev
	$(PY) -m pytest -m load

docs: setup-dev # only the checks of the documentation; `tests` runs them too
	$(PY) -m pytest tests/docs tests/test_architecture.py

bench: setup-dev
	$(PY) -m tests.benchmarks

SECONDS ?= 600
soak: setup-dev # thirty backends, 64 clients, kills and reloads; a table and a verdict, on a machine that does nothing else
	PYTHONPATH=tests $(PY) -P -m fixtures.soak $(SECONDS)

# `make tests` on Python 3.11 to 3.13, each with the lowest and the highest versions that pyproject.toml allows.
versions:
	.ci/versions

# Needs `uv` on the path; run after every change to the dependencies.
lock:
	uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-header --no-emit-index-url \
		pyproject.toml requirements/build.in -o requirements/run.txt
	uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-header --no-emit-index-url \
		pyproject.toml requirements/build.in --extra redis -c requirements/run.txt -o requirements/serve.txt
	uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-header --no-emit-index-url \
		pyproject.toml requirements/build.in --all-extras -c requirements/run.txt -o requirements/dev.txt

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
