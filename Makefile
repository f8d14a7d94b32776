# make demo    the Laplacian example; DEVICE=c (default), opencl or cuda
# make test    the test suite; installs PoCL and MPI where it may. VENV=.venv-lowest VERSIONS=lowest:
#              with the lowest versions of what kgen needs
# make lint    ruff: rules and format          make types   mypy --strict
# make docs    the site, from docs/, in build/site; a warning is an error. Runs the examples that draw
# make wheel   the wheel and the source distribution in dist/, checked, and tried in an environment of their own
# make downstream  tests of packages that use loopy, with kgen.compat and with loopy (needs PyPI)
# make bench   code generation and launch overhead, compared with loopy; exported functions, compared
#              with calls by hand; kernels on the host, compared with C by hand, numba and numpy

PYTHON ?= python3
VENV ?= .venv
VERSIONS ?= newest
DEVICE ?= c
JOBS ?= 2
PYTEST_ARGS ?=

# Nothing of a run depends on, or is left in, the home directory.
export POCL_CACHE_DIR ?= $(CURDIR)/.cache/pocl

IN_VENV := $(VENV)/bin/python
EXTRA_c := base
EXTRA_opencl := opencl
EXTRA_cuda := cuda
EXTRA := $(or $(EXTRA_$(DEVICE)),$(error DEVICE is '$(DEVICE)'; it can be c, opencl or cuda))

.PHONY: demo test lint types docs wheel bench downstream pocl mpi clean

demo: $(VENV)/.installed-$(EXTRA) $(if $(filter opencl,$(DEVICE)),pocl)
	$(IN_VENV) examples/laplacian.py --device $(DEVICE)

test: $(VENV)/.installed-dev pocl mpi
	$(IN_VENV) -m pytest -n $(JOBS) $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(IN_VENV) -m ruff check
	$(IN_VENV) -m ruff format --check

types: $(VENV)/.installed-dev
	$(IN_VENV) -m mypy --strict

docs: $(VENV)/.installed-docs
	$(IN_VENV) -m sphinx -W --keep-going -q -b html docs build/site
	@echo "the site is build/site/index.html"

wheel: $(VENV)/.installed-dist
	$(IN_VENV) tools/try_wheel.py

bench: $(VENV)/.installed-dev pocl
	$(IN_VENV) benchmarks/import_time.py
	$(IN_VENV) benchmarks/codegen.py
	$(IN_VENV) benchmarks/launch.py
	$(IN_VENV) benchmarks/export.py
	$(IN_VENV) benchmarks/host.py

downstream: pocl
	$(PYTHON) -m tools.downstream.run

# The stamp names the extra ('base' is none); it is older than pyproject.toml when that changed.
$(VENV)/.installed-%: pyproject.toml tools/install.sh
	PYTHON=$(PYTHON) tools/install.sh $(VENV) $* $(VERSIONS)
	touch $@

# What starts ranks, where the package index has it for this machine.
mpi: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory $(VENV)/.installed-mpi || \
		echo "MPI could not be installed: what needs it is skipped"

pocl:
	tools/pocl.sh

clean:
	rm -rf $(VENV) .venv-lowest .bench-venv .cache build dist docs/generated *.egg-info
