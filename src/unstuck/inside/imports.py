"""Hands adapters their module right after the user's own code has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from .guard import clean

OnImport = Callable[[ModuleType], None]


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
