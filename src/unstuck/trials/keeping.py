"""What stays of trials on the disk."""

from __future__ import annotations

import shutil
from pathlib import Path

KEPT = 10  # commands whose trials stay: a run is worth more than a trial, which can be made again


def forget(folder: Path, passed: list[Path]) -> None:
    """Recordings of what passed: their evidence is in the reports. And the oldest trials beyond the limit, whole."""
    for one in passed:
        shutil.rmtree(one / "recordings", ignore_errors=True)
    tried = {path.parent for path in folder.parent.glob("*/trial-*") if not (path.parent / "run.json").exists()}
    for old in sorted(tried, key=lambda one: one.stat().st_mtime)[: max(len(tried) - KEPT, 0)]:
        shutil.rmtree(old, ignore_errors=True)
