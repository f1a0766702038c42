"""The `tokenizers` library: documents in, tokens out. Its asynchronous calls are left alone."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace, together
from ..format import Kind
from ..sources.library_calls import TOKENS, Open, counted, counted_one, tokenizer_threads

MODULES = ("tokenizers",)
OWES = (Kind.SOURCE,)
NAME = "tokenizers"


def install(module: ModuleType, guard: Guard) -> Undo:
    """Its classes are written in Rust, but their methods can be replaced like any other class's."""
    owner = module.Tokenizer
    of = functools.partial(_wrapped, owner, guard)
    return together(
        replace(owner, "encode", lambda one: counted_one(one, TOKENS, f"{NAME}.encode", guard, len)),
        of("encode_batch", _several, tokenizer_threads),
        of("encode_batch_fast", _several, tokenizer_threads),
    )


def _wrapped(owner: Any, guard: Guard, name: str, measure: Any, threads: Any = None) -> Undo:
    return replace(owner, name, lambda one: counted(one, TOKENS, f"{NAME}.{name}", guard, measure, threads))


def _several(call: Open, _: Any, __: Any, encodings: Any) -> None:
    made = sum(map(len, encodings))
    call.ends(len(encodings), made, is_new=made > 0)
