"""tiktoken: documents in, tokens out, and the threads that a batch is shared out to."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace, together
from ..format import Kind
from ..sources.library_calls import TOKENS, Open, counted, counted_one

MODULES = ("tiktoken.core",)
OWES = (Kind.SOURCE,)
NAME = "tiktoken"
DEFAULT = 8  # threads, if nobody says


def install(module: ModuleType, guard: Guard) -> Undo:
    def of(name: str, measure: Any, threads: Any = None) -> Undo:
        return replace(
            module.Encoding, name, lambda original: counted(original, TOKENS, f"{NAME}.{name}", guard, measure, threads)
        )

    def one(name: str) -> Undo:
        return replace(
            module.Encoding, name, lambda original: counted_one(original, TOKENS, f"{NAME}.{name}", guard, len)
        )

    return together(
        one("encode"),
        one("encode_ordinary"),
        one("encode_to_numpy"),
        of("encode_batch", _several, _threads),
        of("encode_ordinary_batch", _several, _threads),
    )


def _threads(_: Any, kwargs: dict[str, Any]) -> tuple[int | None, bool]:
    """They make calls of their own, which are part of this one."""
    told = kwargs.get("num_threads", DEFAULT)
    return (told if type(told) is int else None), True


def _several(call: Open, _: Any, __: Any, documents: Any) -> None:
    made = sum(map(len, documents))
    call.ends(len(documents), made, is_new=made > 0)
