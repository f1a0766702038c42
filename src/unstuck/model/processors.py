"""Lists of processors, as the kernel writes them: `0-3,8`."""

from __future__ import annotations

from collections.abc import Collection


def numbers(text: str) -> set[int]:
    """Of the processors in a list as the kernel writes it: `0-3,8`."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), int(last or first) + 1))
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
