"""Switches recording on in this process: joins a run, starts its watcher, and hands adapters their modules.

An adapter is given its module right after the user's own code has imported it, and is never imported before that.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from .core import run_folder
from .core.guard import Guard, clean, is_ours, quietly
from .core.process import process, role_of_interpreter
from .core.recorder import clock
from .core.stacks import stacks
from .failures import exceptions
from .format import H_ROLE, ROLE_MAIN, Kind

OnImport = Callable[[ModuleType], None]


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
        quietly(_begin_watcher)
    sys.meta_path.insert(0, finder)
    _install_adapters()
    exceptions.install_hooks()
    finder.when_imported("ctypes", lambda _: quietly(stacks.permit))  # torch imports it first of all
    finder.when_imported("torch", lambda torch: quietly(_imported, torch))


def _begin_watcher() -> None:
    """Start a detached watcher, unless the launcher is one already. It elects itself: a second one leaves at once."""
    python = os.environ.get(run_folder.WATCHER)
    folder = os.environ.get(run_folder.FOLDER)
    if not python or not folder or process.recorder is None:
        return
    import subprocess  # torch imports it anyway

    environment = {name: value for name, value in os.environ.items() if not name.startswith("UNSTUCK")}
    environment["UNSTUCK"] = "0"
    environment["PYTHONPATH"] = os.environ.get("UNSTUCK_PYTHONPATH", "")
    about = [folder, str(process.pid), process.folder or "", *sys.orig_argv]
    # The shell goes at once, so the watcher is nobody's child here and leaves no zombie.
    started = subprocess.run(
        ["/bin/sh", "-c", '"$@" </dev/null >/dev/null & echo $!', "sh", python, "-m", "unstuck.watching", *about],
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=sys.__stderr__ if sys.__stderr__ is not None else subprocess.DEVNULL,
        check=False,
    )
    os.environ[run_folder.WATCHER_PID] = started.stdout.decode().strip()
    stacks.permit()


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


class Finder:
    """First on `sys.meta_path`: finds nothing itself, but learns when a wanted module has been executed."""

    def __init__(self) -> None:
        self._wanted: dict[str, list[OnImport]] = {}
        self._looking: set[str] = set()
        self._begun: list[
            tuple[ModuleType, OnImport]
        ] = []  # modules in whose middle torch was imported, and so we were

    def when_imported(self, name: str, call: OnImport) -> None:
        """Call with the module once it is there: now, if it already is."""
        module = sys.modules.get(name)
        if module is None:
            self._wanted.setdefault(name, []).append(call)
        elif _is_being_made(module):
            self._begun.append((module, call))
        else:
            call(module)

    def _settle(self) -> None:
        """Their loader is not ours: that they are through shows when the next module is imported."""
        done = [one for one in self._begun if not _is_being_made(one[0])]
        self._begun = [one for one in self._begun if one not in done]
        for module, call in done:
            call(module)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if self._begun:
            self._settle()
        if name not in self._wanted or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = self._found_by_others(name, path, target)
        finally:
            self._looking.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec, spec.loader, self._wanted)  # type: ignore[assignment]
        return spec

    def _found_by_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec: ModuleSpec | None = find(name, path, target)
                if spec is not None:
                    return spec
        return None


class _Loader:
    """Stands in for a module's own loader for the length of one import."""

    def __init__(self, spec: ModuleSpec, original: object, wanted: dict[str, list[OnImport]]) -> None:
        self._spec = spec
        self._original = original
        self._wanted = wanted

    def __getattr__(self, name: str) -> object:
        return getattr(self._original, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)  # type: ignore[attr-defined, no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = self._original  # type: ignore[assignment]
        module.__loader__ = self._original  # type: ignore[assignment]
        try:
            self._original.exec_module(module)  # type: ignore[attr-defined]
        except Exception as error:
            clean(error)
            raise
        # Only now: `importlib.util.find_spec`, or an import that failed, has asked for a spec as well.
        for call in self._wanted.pop(module.__name__, ()):
            call(module)


def _is_being_made(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


finder = Finder()
