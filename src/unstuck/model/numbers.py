"""Numbers that are counted up to: a damaged or forged one must not make anything count for hours."""

from __future__ import annotations

from typing import Annotated

import msgspec

# Ranks, workers, samples of a batch. Whatever is decoded from a file is held to it.
Ordinal = Annotated[int, msgspec.Meta(ge=-(1 << 24), le=1 << 24)]  # torch says -1 for "not told"
