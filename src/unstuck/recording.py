"""The public API's way into the one copy of `inside` that this process has."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .inside.api import metric, nonblocking, note, phase, progress, stage

__all__ = ["metric", "nonblocking", "note", "phase", "progress", "stage", "watch"]


def _inside(name: str) -> ModuleType:
    """A module of `inside`, always as part of `_unstuck_inside`: under `unstuck run` it is loaded already."""
    if "_unstuck_inside" not in sys.modules:
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside")
        spec = spec_from_file_location(
            "_unstuck_inside", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        if spec is None or spec.loader is None:
            raise ImportError(f"unstuck is not installed completely: {folder} is missing")
        sys.modules["_unstuck_inside"] = package = module_from_spec(spec)
        spec.loader.exec_module(package)
    return import_module(f"_unstuck_inside.{name}")


def watch(runs: str = "unstuck-runs") -> None:
    """Record this process and those it starts from now on, and watch them from a process beside.

    Meant for the first lines of a script; later is fine too. Does nothing under `unstuck run`, which records already,
    and nothing with `UNSTUCK=0`.
    """
    folder = _inside("core.run_folder")
    if os.environ.get(folder.RECORDINGS) is None:
        os.environ.setdefault(folder.RUNS, os.path.abspath(runs))
        os.environ.setdefault(folder.WATCHER, sys.executable)
        bootstrap = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside", "bootstrap")
        before = os.environ.get("PYTHONPATH", "")
        if not folder.switched_off() and bootstrap not in before.split(os.pathsep):
            os.environ["UNSTUCK_PYTHONPATH"] = before
            os.environ["PYTHONPATH"] = os.pathsep.join([bootstrap, *filter(None, [before])])
    if not _inside("start").start() and not folder.switched_off():
        print(f"unstuck: no recording in {runs}; the program runs unrecorded", file=sys.stderr)


def __getattr__(name: str) -> object:
    if name in ("stage", "phase", "progress", "metric", "nonblocking", "note"):
        return getattr(_inside("api"), name)
    raise AttributeError(name)
