"""Python runs this at start-up because `unstuck run` put this folder on PYTHONPATH.

It waits for the first import of torch, and only then loads the recorder. A process that never imports torch pays for
this file alone. Then it gives way to the sitecustomize that the user's environment would have run.
"""

import sys


class _WaitForTorch:
    """First on `sys.meta_path` until torch is asked for."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch":
            sys.meta_path.remove(_WaitForTorch)
            try:
                _load_inside()
            except Exception as error:
                if not _is_ours(error):
                    raise
        return None


def _load_inside():
    import importlib.util
    import os

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = importlib.util.spec_from_file_location(
        "_unstuck_inside", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    sys.modules["_unstuck_inside"] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    from _unstuck_inside.start import start

    start()


def _is_ours(error):
    """A failure to start belongs to us, and the training goes on without a recording; a signal handler's does not."""
    guard = sys.modules.get("_unstuck_inside.guard")
    return guard is None or guard.is_ours(error)


def _give_way():
    """Run the sitecustomize we stand in front of, and leave no trace on the path."""
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


def _wanted():
    import os

    given = os.environ.get
    return given("UNSTUCK") != "0" and (given("UNSTUCK_RECORDINGS") or given("UNSTUCK_RUNS"))


if _wanted():
    sys.meta_path.insert(0, _WaitForTorch)
_give_way()
