"""Lists of processors, as the kernel writes them: `0-3,8`."""

from __future__ import annotations

import re
from collections.abc import Collection

MOST = 8192  # processors that Linux can be built for
DIGITS = re.compile("[0-9]{1,9}")


def numbers(text: str) -> set[int]:
    """Of the processors in a list as the kernel writes it: `0-3,8`."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if DIGITS.fullmatch(first) and DIGITS.fullmatch(last or first):
            found.update(range(int(first), min(int(last or first) + 1, MOST)))
    return found


def in_words(processors: Collection[int]) -> str:
    """The other way round."""
    runs: list[list[int]] = []
    for one in sorted(processors):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
