"""The `tokenizers` library: documents in, tokens out. Its asynchronous calls are left alone."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from ..format import Kind
from ..guard import Guard
from ..patching import Undo, replace, together
from ..short_calls import counted_one
from ..sources import TOKENS, Open, counted
from ..threads import of_tokenizers

MODULES = ("tokenizers",)
OWES = (Kind.SOURCE,)
NAME = "tokenizers"


def install(module: ModuleType, guard: Guard) -> Undo:
    """Its classes are written in Rust, but their methods can be replaced like any other class's."""
    owner = module.Tokenizer
    of = functools.partial(_wrapped, owner, guard)
    return together(
        replace(owner, "encode", lambda one: counted_one(one, TOKENS, f"{NAME}.encode", guard, len)),
        of("encode_batch", _several, of_tokenizers),
        of("encode_batch_fast", _several, of_tokenizers),
    )


def _wrapped(owner: Any, guard: Guard, name: str, measure: Any, threads: Any = None) -> Undo:
    return replace(owner, name, lambda one: counted(one, TOKENS, f"{NAME}.{name}", guard, measure, threads))


def _several(call: Open, _: Any, __: Any, encodings: Any) -> None:
    made = sum(map(len, encodings))
    call.ends(len(encodings), made, is_new=made > 0)
