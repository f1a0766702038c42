"""`python …/trials/child/trial.py REQUEST.json`: does one thing with the user's loader and writes down what it saw.

A worker that is spawned runs this file again, under another name, to find what it is sent: so the package is made
known at once, and work begins only in the process that was started with a request.
"""

from __future__ import annotations

import importlib.util
import os
import sys

PACKAGE = "_unstuck_trial"


def known() -> None:
    """Our modules under their own name; our folder is not where the user's imports are looked for.

    Its path is no name of this module: what the frames of a failure hold is taken for the files it was about.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    if PACKAGE in sys.modules:
        return
    file = os.path.join(here, "__init__.py")
    spec = importlib.util.spec_from_file_location(PACKAGE, file, submodule_search_locations=[here])
    if spec is None or spec.loader is None:
        raise ImportError(file)
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


known()

if __name__ == "__main__":
    sys.exit(importlib.import_module(f"{PACKAGE}.request").main(sys.argv.pop()))
