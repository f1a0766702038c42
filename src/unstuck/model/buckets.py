"""Datasets that sort their files into buckets of one shape and make their batches themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from .places import Place


class Buckets(msgspec.Struct, frozen=True, omit_defaults=True):
    """One such dataset, after its buckets were set up."""

    at: float
    dataset: str = ""  # its class
    which: int = 0  # of the datasets of this process: the first is 1; 0: it was told
    step: str = ""  # the method that had just set them up: setup_buckets, build_batch_indices …
    where: Place | None = None  # where that is written
    told: bool = False  # by `unstuck.note`
    files: dict[str, int] = {}  # by bucket, the largest first, as many as are kept
    count: int = 0  # of all buckets
    total_files: int = 0
    batch_size: int | None = None
    batches: int | None = None  # that all buckets together make
    index: str = ""  # the attribute that lists them: batch_indices …
    partial: int | None = None  # those of them that are not full
    seconds: float = 0.0  # that it took to set them up
    loader: int | None = None  # the number of the loader that reads it


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the user's code said about itself, under a tag of its own."""

    tag: str
    at: float
    facts: dict[str, Any] = {}


class Skipping(msgspec.Struct, frozen=True, omit_defaults=True):
    """Batches that a resumed training passes over."""

    who: str  # accelerate.skip_first_batches, StatefulDataLoader …
    since: float
    skipped: int = 0
    of: int | None = None
    seconds: float = 0.0  # that it took so far
    ended: bool = False
    loader: int = 0  # the number of the loader they come from
