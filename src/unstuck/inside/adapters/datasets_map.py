"""Hugging Face datasets: `map`, `filter` and `load_dataset`, and how far their progress bars have come."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace, replace_everywhere, together
from ..format import Kind
from ..sources.library_calls import MAP, Open, counted, sources

MODULES = ("datasets.arrow_dataset", "datasets.load", "datasets.utils.tqdm")
OWES = (Kind.SOURCE,)


def install(module: ModuleType, guard: Guard) -> Undo:
    if module.__name__ == "datasets.load":
        return replace_everywhere(module, "load_dataset", lambda original: _timed(original, "load_dataset", guard))
    if module.__name__ == "datasets.arrow_dataset":
        return together(_replaced(module.Dataset, "map", guard), _replaced(module.Dataset, "filter", guard))
    return _bars(module.tqdm, guard)


def _replaced(owner: Any, name: str, guard: Guard) -> Undo:
    return replace(owner, name, lambda original: _timed(original, name, guard))


def _timed(original: Any, name: str, guard: Guard) -> Any:
    return counted(original, MAP, f"datasets.{name}", guard, _done, _processes)


def _processes(_: Any, kwargs: dict[str, Any]) -> tuple[int | None]:
    told = kwargs.get("num_proc")
    return (told if type(told) is int else None,)


def _done(call: Open, _: Any, __: Any, ___: Any) -> None:
    call.ends(0)


def _bars(owner: Any, guard: Guard) -> Undo:
    """Their class has no `update` of its own; it gets one that passes on."""
    inherited = owner.update

    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard.quietly(_moved, args[0] if args else kwargs.get("n", 1))
        try:
            return inherited(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise

    owner.update = update

    def undo() -> None:
        if vars(owner).get("update") is update:
            del owner.update

    return undo


def _moved(count: object) -> None:
    going_on = [one for (_, kind), one in list(sources.open.items()) if kind == MAP and one is not None]
    if going_on and type(count) is int and count > 0:
        going_on[-1].moves(count)
