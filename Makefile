# Every target sets up .venv on first use, from python3 and make alone.  Choose another interpreter with
# make PYTHON=python3.12 test, and pass options to pytest with make test ARGS="-k iwp".

PYTHON ?= python3
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs

.DEFAULT_GOAL := help
.PHONY: help demo test lint validate perf docs clean

help:
	@echo "make demo      the Bouc-Wen case study: tables, figures and a report in demo/"
	@echo "make test      the quick test suite"
	@echo "make lint      ruff, mypy and import-linter"
	@echo "make validate  the long statistical studies"
	@echo "make perf      timings against C and other libraries"
	@echo "make docs      the documentation as a site in site/"
	@echo "make clean     remove .venv and everything generated"

# An environment that exists already is used as it is; one without a working pip is made anew.
$(STAMP): pyproject.toml constraints.txt
	@$(PY) -m pip --version >/dev/null 2>&1 || { \
		$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "probsysid needs Python 3.11 or later; choose one with make PYTHON=/path/to/python3"; exit 1; }; \
		$(PYTHON) -m venv $(VENV); }
	@echo "Installing probsysid and its tools into $(VENV) (once, a minute or two)"
	@$(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

demo: $(STAMP)
	$(PY) -m probsysid benchmark bouc-wen --particles 256 --out demo

test: $(STAMP)
	$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy src
	$(VENV)/bin/lint-imports

validate: $(STAMP)
	$(PY) -m pytest -m long
	$(PY) -m validation

perf: $(STAMP)
	$(PY) perf/page.py --run $(ARGS)

$(DOCS_STAMP): $(STAMP)
	@echo "Installing the tools for the documentation into $(VENV) (once)"
	@$(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

# Tutorials run once and again when they or the package have changed: minutes the first time, seconds after that.
docs: $(DOCS_STAMP)
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet -b html -d build/docs docs site
	@echo "The documentation is in site/index.html"

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis build dist demo site docs/tutorials
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
