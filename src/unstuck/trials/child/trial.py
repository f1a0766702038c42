"""`python …/trials/child/trial.py REQUEST.json`: does one thing with the user's loader and writes down what it saw.

A worker that is spawned runs this file again, under another name, to find what it is sent: so the package is made
known at once, and work begins only in the process that was started with a request.
"""

from __future__ import annotations

import importlib.util
import os
import sys

PACKAGE = "_unstuck_trial"
HERE = os.path.dirname(os.path.abspath(__file__))


def known() -> None:
    """Our modules under their own name; our folder is not where the user's imports are looked for."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    if PACKAGE in sys.modules:
        return
    file = os.path.join(HERE, "__init__.py")
    spec = importlib.util.spec_from_file_location(PACKAGE, file, submodule_search_locations=[HERE])
    if spec is None or spec.loader is None:
        raise ImportError(file)
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


known()

if __name__ == "__main__":
    sys.exit(importlib.import_module(f"{PACKAGE}.request").main(sys.argv.pop()))
