"""The usual rule of thumb for num_workers, with the numbers of a machine."""

from __future__ import annotations

LEFT_OVER = 4  # processors that it leaves to the main process and the system
PER_GPU = 8
TWICE = 2


def formula(processors: int, gpus: int) -> tuple[int, str]:
    """Its answer, and how it comes about. Where there is no GPU it is asked for a machine with one."""
    counted = max(gpus, 1)
    found = min(processors - LEFT_OVER, TWICE * counted * PER_GPU)
    one = "" if gpus else " (as with one GPU; there is none here)"
    said = f"min({processors} processors − {LEFT_OVER}, {TWICE} × {counted} × {PER_GPU}) = {found}{one}"  # noqa: RUF001
    return max(found, 0), said if found >= 0 else f"{said}: it has no answer for so few processors"
