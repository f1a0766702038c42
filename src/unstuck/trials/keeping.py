"""What stays of trials on the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..inside.run_folder import mark
from ..retention import TRIALS, forget_aloud, remove_recordings
from ..safe_files import PRIVATE_FOLDER


def begin(folder: Path) -> None:
    """A folder for the trials of one command, made once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(PRIVATE_FOLDER)
    except FileExistsError:
        return
    mark(str(folder), TRIALS)


def forget(folder: Path, passed: list[Path], say: Callable[[str], None]) -> None:
    """Recordings of what passed: their evidence is in the reports. And the oldest trials beyond the limit, whole."""
    for trial in passed:
        remove_recordings(trial)
    forget_aloud(folder.parent, TRIALS, folder, say)
