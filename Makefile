# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
# By `python -m`: the first line of an installed script cannot name an interpreter below a folder with a space in its name.
RUN := .venv/bin/python -m
# Hundreds of tests start an interpreter: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test scenarios versions quick lint capture docs pictures site clean

demo: .venv/base  ## run a small broken training under unstuck and print the verdict
	$(RUN) unstuck demo

test: .venv/dev lint  ## lint, types, all tests, all kept evidence and the core of the scenarios: about a quarter of an hour
	$(RUN) pytest -m "not calm"

scenarios: .venv/dev  ## every scenario, from inside and from outside, no more at a time than there are cores
	$(RUN) pytest -m "core or calm" -n auto --reruns 1

quick: .venv/dev lint  ## lint, types and the tests that run no training: two minutes
	$(RUN) pytest -m "not scenario"

lint: .venv/dev
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

capture: .venv/dev  ## run the scenarios and write their evidence and words into tests/rules/captured
	.venv/bin/python tests/capture.py $(RULES)

docs: .venv/dev  ## write docs/rules and docs/errors.md from the rules
	$(RUN) unstuck.rules docs

pictures: .venv/dev  ## draw the verdicts in docs/pictures from kept evidence of real runs
	.venv/bin/python tests/pictures.py

site: .venv/dev  ## build the documentation as a site into site/, without a network
	$(RUN) mkdocs build --strict

versions: .venv/dev  ## a core of scenarios on other versions of Python and torch; gigabytes, and two hours
	.venv/bin/python benchmarks/versions.py --markdown docs/versions.md

# torch comes first and by plain pip: resolved together with the rest, it would bring gigabytes of another build.
.venv/base: pyproject.toml
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	$(RUN) pip install --quiet --disable-pip-version-check torch==2.13.0
	$(RUN) pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/dev: .venv/base pyproject.toml .venv/apart
	$(RUN) pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

.venv/apart: .venv/base tests/apart.txt
	rm -rf $@
	$(RUN) pip install --quiet --disable-pip-version-check --no-deps --target $@ -r tests/apart.txt
	touch $@

clean:
	rm -rf .venv unstuck-runs dist site
