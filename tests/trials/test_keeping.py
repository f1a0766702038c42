"""Trials do not fill the disk."""

from __future__ import annotations

import os
from pathlib import Path

from unstuck.trials.keeping import KEPT, forget


def test_recordings_of_what_passed_go_and_the_oldest_trials_beyond_the_limit_but_no_run(tmp_path: Path) -> None:
    for number in range(KEPT + 2):
        (tmp_path / f"doctor-{number}" / "trial-workers" / "recordings").mkdir(parents=True)
        os.utime(tmp_path / f"doctor-{number}", (number, number))
    (tmp_path / "train-1" / "trial-of-mine").mkdir(parents=True)
    (tmp_path / "train-1" / "run.json").touch()
    os.utime(tmp_path / "train-1", (0, 0))
    newest = tmp_path / f"doctor-{KEPT + 1}"

    forget(newest, [newest / "trial-workers"])

    left = sorted(one.name for one in tmp_path.iterdir())
    assert left == sorted(["train-1", *(f"doctor-{number}" for number in range(2, KEPT + 2))])
    assert not (newest / "trial-workers" / "recordings").exists()
    assert (tmp_path / "doctor-5" / "trial-workers" / "recordings").exists()
