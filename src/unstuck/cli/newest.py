"""The newest run in the folder where runs go, while others may be removed from it."""

from __future__ import annotations

from pathlib import Path

RUNS = Path("unstuck-runs")


def newest_run(base: Path = RUNS) -> Path | None:
    return max(_by_age(base), default=(0.0, None))[1]


def _by_age(base: Path) -> list[tuple[float, Path]]:
    found = []
    try:
        for folder in base.iterdir():
            try:
                found.append(((folder / "run.json").lstat().st_mtime, folder))
            except OSError:  # no run, or one that has just been removed
                continue
    except OSError:
        pass
    return found
