"""Tokenizers of transformers: documents in, tokens out. What they have the `tokenizers` library do is part of it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace, together
from ..format import Kind
from ..sources.library_calls import TOKENS, Open, counted, tokenizer_threads

MODULES = ("transformers.tokenization_utils_base",)
OWES = (Kind.SOURCE,)
NAME = "transformers"
CALLS = ("__call__", "encode", "encode_plus", "batch_encode_plus")  # the last two: before version 5
KEY = "input_ids"


def install(module: ModuleType, guard: Guard) -> Undo:
    """A class that replaces one of these by its own, and does not call it, stays unseen."""
    owner = module.PreTrainedTokenizerBase
    calls = [name for name in CALLS if name in vars(owner)]
    return together(*(replace(owner, name, lambda original: _wrapped(original, guard)) for name in calls))


def _wrapped(original: Any, guard: Guard) -> Any:
    return counted(original, TOKENS, NAME, guard, _measure, tokenizer_threads)


def _measure(call: Open, args: Any, kwargs: Any, result: Any) -> None:
    texts = args[1] if len(args) > 1 else next(iter(kwargs.values()), "")
    made = tokens(result)
    call.ends(len(texts) if type(texts) in (list, tuple) else 1, made, is_new=made > 0)


def tokens(result: Any) -> int:
    """Of a list, a list of lists, or what such lists were made into."""
    held = getattr(result, "data", result) if type(result).__name__ == "BatchEncoding" else result
    ids: Any = held.get(KEY) if type(held) is dict else held
    if type(ids) in (list, tuple):
        inner = bool(ids) and type(ids[0]) in (list, tuple)
        return sum(map(len, ids)) if inner else len(ids)
    shape = getattr(ids, "shape", ())
    count = 1
    for one in shape:
        count *= int(one)
    return count if shape else 0
