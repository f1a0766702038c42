"""Python runs this at start-up because `unstuck run` put this folder on PYTHONPATH.

It waits for the first import of torch, and only then loads the recorder. A process that never imports torch pays for
this file alone. Then it gives way to the sitecustomize that the user's environment would have run.

Every Python below the command runs this file, an old gsutil's 2.7 too: it is written so that all of them can. Where the
recorder cannot run, this does nothing but give way.
"""

import sys


class _WaitForTorch:
    """First on `sys.meta_path` until torch is imported."""

    @staticmethod
    def find_spec(name, *args, **kwargs):
        # `importlib.util.find_spec("torch")` only asks whether there is a torch.
        if name == "torch" and sys._getframe(2).f_code.co_name != "find_spec":
            sys.meta_path.remove(_WaitForTorch)
            try:
                _load_inside()
            except Exception as error:
                if not _is_ours(error):
                    raise
            # Whoever takes over stands in front of where this search has come to.
            started = sys.modules.get("_unstuck_inside.start")
            return started.finder.find_spec(name, *args, **kwargs) if hasattr(started, "finder") else None
        return None


def _load_inside():
    import importlib.util
    import os

    if "_unstuck_inside" not in sys.modules:
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
    guard = sys.modules.get("_unstuck_inside.core.guard")
    if hasattr(guard, "is_ours"):
        return guard.is_ours(error)
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    folder = __file__.rpartition("bootstrap")[0]
    return trace.tb_frame.f_code.co_filename.startswith((folder, "<frozen "))


def _give_way():
    """Import the sitecustomize we stand in front of, as if we were not there: where there is none, that fails."""
    here = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry != here]
    ours = sys.modules.pop("sitecustomize")  # noqa: F841  (Python 2 empties a module that nobody refers to)
    import sitecustomize  # noqa: F401


def _wanted():
    """The recorder is written for CPython 3.10 and later."""
    if sys.version_info < (3, 10) or sys.implementation.name != "cpython":
        return False
    import os

    given = os.environ.get
    return given("UNSTUCK") != "0" and (given("UNSTUCK_RECORDINGS") or given("UNSTUCK_RUNS"))


if _wanted():
    sys.meta_path.insert(0, _WaitForTorch)
_give_way()
