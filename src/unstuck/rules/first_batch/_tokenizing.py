"""How to make a tokenizer faster, in the terms of the library that is used."""

from __future__ import annotations

from ...evidence.finding import Remedy
from ...evidence.loader import Source

BEFOREHAND = Remedy("Tokenise the data once, before training, and let the training read tokens from disk")


def one_by_one(source: Source) -> bool:
    """A call for every document."""
    return source.calls.count >= source.items > 1


def in_batches(source: Source, cpus: int) -> Remedy:
    if source.name.startswith("tiktoken"):
        code = f"encoding.encode_ordinary_batch(texts, num_threads={cpus or 8})"
    elif source.name.startswith("tokenizers"):
        code = "tokenizer.encode_batch(texts)"
    else:
        code = 'tokenizer(texts)["input_ids"]'
    return Remedy("Tokenise documents in batches instead of one by one: a batch uses several CPU cores", code=[code])


def more_threads(source: Source, cpus: int) -> Remedy:
    text = f"Let the tokenizer use all {cpus} CPU cores: it uses {source.threads} now"
    if source.name.startswith("tiktoken"):
        return Remedy(text, code=[f"encoding.encode_ordinary_batch(texts, num_threads={cpus})"])
    return Remedy(text, ["unset RAYON_NUM_THREADS TOKENIZERS_PARALLELISM"])
