"""How the threads of a process were set up, and how much of its loading they could have shared."""

from __future__ import annotations

import msgspec


class Shared(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some batches of one loader, looked at closely: seconds in operations of torch that threads would share."""

    loader: int
    seconds: float = 0.0  # of fetching these batches
    shared: float = 0.0
    batches: int = 0
    names: list[str] = []  # of the operations that took most


class Threads(msgspec.Struct, frozen=True, omit_defaults=True):
    """When the first pass over a loader began."""

    variables: dict[str, str] = {}  # that are set, of those that thread pools follow, and CUDA_VISIBLE_DEVICES
    by_launcher: list[str] = []  # those of them that torchrun has set, and nobody before it
    threads: int | None = None  # with which torch computes
    shared: list[Shared] = []
