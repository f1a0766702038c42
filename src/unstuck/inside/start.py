"""Switches recording on in this process."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from . import exceptions, run_folder, watcher
from .format import H_ROLE, ROLE_MAIN, Kind
from .guard import Guard, is_ours, quietly
from .imports import finder
from .process import process, role_of_interpreter
from .recorder import clock
from .stacks import stacks


def start() -> bool:
    """Record this process, if it belongs to a run. True when it does; a second call changes nothing."""
    if process.folder is not None:
        return True
    if run_folder.switched_off():
        return False
    try:
        joined = run_folder.join()
    except OSError:
        return False
    if joined is None:
        return False
    quietly(_record_into, *joined)
    return True


def _record_into(folder: str, first: bool) -> None:
    process.record_into(folder)
    role = role_of_interpreter()
    if role is not None:
        process.recording(role)
    if first:
        quietly(watcher.begin)
    sys.meta_path.insert(0, finder)
    _install_adapters()
    exceptions.install_hooks()
    finder.when_imported("ctypes", lambda _: quietly(stacks.permit))  # torch imports it first of all
    finder.when_imported("torch", lambda torch: quietly(_imported, torch))


def _imported(torch: ModuleType) -> None:
    """One that was there before recording began, by a late `watch()`, was imported nobody knows when."""
    if getattr(torch.__spec__, "_initializing", False):
        process.torch_imported()
    recorder = process.recorder
    if recorder is not None and recorder.words[H_ROLE] == ROLE_MAIN:
        stacks.keep_crashes_of_main()


def _install_adapters() -> None:
    folder = os.path.join(os.path.dirname(__file__), "adapters")
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and file != "__init__.py":
            for name in modules_of(os.path.join(folder, file)):
                finder.when_imported(name, _Installer(file[:-3]))


def modules_of(path: str) -> list[str]:
    """The modules that an adapter is for, from its text: an adapter whose library is never used is never imported."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    _, _, rest = text.partition("\nMODULES = (")
    return [one.strip().strip('"') for one in rest.partition(")")[0].split(",") if one.strip()]


class _Installer:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: ModuleType) -> None:
        guard = Guard(self.name, _report)
        # A library of another version may lack what an adapter looks for: the adapter is missing then, not the run.
        try:
            adapter = importlib.import_module(f".adapters.{self.name}", __package__)
            guard.undo = adapter.install(module, guard)
        except (AttributeError, ValueError, TypeError) as error:
            if not is_ours(error):
                raise
            quietly(_report, self.name, error)


def _report(name: str, error: BaseException) -> None:
    recorder = process.recorder
    if recorder is not None:
        text = recorder.intern(f"{name}: {type(error).__name__}: {exceptions.message_of(error)}"[:500])
        recorder.note(Kind.ADAPTER_FAILED, recorder.intern(name), clock(), 0, text)
