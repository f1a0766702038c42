# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Hundreds of tests start an interpreter: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test variants quick lint capture docs clean

demo: .venv/base  ## run a small broken training under unstuck and print the verdict
	$(BIN)/unstuck demo

test: .venv/dev lint  ## lint, types and the whole suite
	$(BIN)/pytest

variants: .venv/dev  ## further forms of failures, and plain healthy neighbours, for which `test` has no time
	$(BIN)/pytest -m variant

quick: .venv/dev lint  ## the same without the real trainings: under a minute
	$(BIN)/pytest -m "not scenario"

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

capture: .venv/dev  ## run the scenarios and write their evidence and words into tests/rules
	$(BIN)/python tests/capture.py $(RULES)

docs: .venv/dev  ## write docs/rules from the rules
	$(BIN)/python -m unstuck.rules docs/rules

# torch comes first and by plain pip: resolved together with the rest, it would bring gigabytes of another build.
.venv/base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/dev: .venv/base pyproject.toml .venv/apart
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

.venv/apart: .venv/base tests/apart.txt
	rm -rf $@
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ -r tests/apart.txt
	touch $@

clean:
	rm -rf .venv unstuck-runs dist
