# make run   set everything up and open the app on the embedded demo
# make test  set everything up and pass the tests
PYTHON ?= python3
BIN := .venv/bin
# A browser opens where there is a desktop; elsewhere the address is printed.
HEADLESS := $(if $(DISPLAY)$(WAYLAND_DISPLAY)$(filter Darwin,$(shell uname)),false,true)
export OMP_NUM_THREADS ?= 2
export TOKENIZERS_PARALLELISM = false

.PHONY: run test test-slow test-ray lint demo benchmarks clean

.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + sys.version)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install -q --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.venv/ready-dev: .venv/ready requirements-dev.txt
	$(BIN)/pip install -q --disable-pip-version-check -r requirements-dev.txt
	touch $@

.venv/ready-slow: .venv/ready-dev requirements-slow.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps -r requirements-slow.txt
	touch $@

run: .venv/ready
	$(BIN)/python -m pages.shared.serve --server.headless $(HEADLESS)

# One thread: tests start processes of their own, and threads of two processes on two cores wait for each other.
test test-slow: export OMP_NUM_THREADS = 1
# Two files at a time: on one core the tests take longer than anybody waits.
test: .venv/ready-dev lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: .venv/ready-slow
	$(BIN)/python -m pytest -m slow

# The optional executor: a real Ray cluster of two nodes on this machine, about a minute.
test-ray: export OMP_NUM_THREADS = 1
test-ray: .venv/ready-dev
	$(BIN)/pip install -q --disable-pip-version-check -r requirements-ray.txt
	$(BIN)/python -m pytest tests/audit/test_ray.py tests/tracks/language_models/test_ray.py

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

demo: .venv/ready  ## compute the embedded audits again from the embedded models (hours)
	$(BIN)/python -m engine.audit.embedded

benchmarks: .venv/ready-slow
	$(BIN)/python -m benchmarks.redraw
	$(BIN)/python -m benchmarks.screens
	$(BIN)/python -m benchmarks.head_scores
	$(BIN)/python -m benchmarks.filter_pruning
	$(BIN)/python -m benchmarks.conductance
	$(BIN)/python -m benchmarks.fair_toy
	$(BIN)/python -m benchmarks.fair_training

clean:
	rm -rf .venv .pytest_cache .ruff_cache
