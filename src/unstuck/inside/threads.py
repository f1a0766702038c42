"""How many threads a tokenizer uses, as far as it was told."""

from __future__ import annotations

import os
from typing import Any

NO = ("off", "false", "f", "no", "n", "0")


def of_tokenizers(_: Any = (), __: Any = None) -> tuple[int | None]:
    """None: nobody said, and it takes all processors there are."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in NO:
        return (1,)
    told = os.environ.get("TOKENIZERS_NUM_THREADS") or os.environ.get("RAYON_NUM_THREADS", "")
    return (int(told) if told.isdigit() and int(told) else None,)
