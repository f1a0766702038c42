"""Trials do not fill the disk, and nothing but trials makes room for them."""

from __future__ import annotations

import os
from pathlib import Path

from unstuck.inside.core.run_folder import mark
from unstuck.retention import KEPT, TRIALS
from unstuck.trials.attempt import begin, forget


def tried(base: Path, number: int) -> Path:
    """The folder of a doctor's trials, long ago."""
    folder = base / f"doctor-{number}"
    begin(folder)
    trial = folder / "trial-workers"
    (trial / "recordings").mkdir(parents=True)
    (trial / "recordings" / "node.1.2.3.rec").touch()
    mark(str(trial))
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (number, number))
    return folder


def test_recordings_of_what_passed_go_and_the_oldest_trials_beyond_the_limit_and_it_is_said(tmp_path: Path) -> None:
    folders = [tried(tmp_path, number) for number in range(KEPT[TRIALS] + 2)]
    said: list[str] = []

    forget(folders[-1], [folders[-1] / "trial-workers"], said.append)

    left = [folder.exists() for folder in folders]
    assert left == [False, False] + [True] * KEPT[TRIALS]
    assert not (folders[-1] / "trial-workers" / "recordings").exists()
    assert (folders[5] / "trial-workers" / "recordings" / "node.1.2.3.rec").exists()
    assert said == [f"removed 2 old folders of trials from {tmp_path} (the newest 10 are kept): doctor-0, doctor-1"]


def test_a_study_of_the_users_own_that_looks_alike_stays(tmp_path: Path) -> None:
    mine = tmp_path / "study" / "trial-0001" / "recordings"
    mine.mkdir(parents=True)
    (mine / "a.1.2.3.rec").touch()
    newest = [tried(tmp_path, number) for number in range(KEPT[TRIALS] + 1)][-1]

    forget(newest, [tmp_path / "study" / "trial-0001"], lambda _: None)

    assert (mine / "a.1.2.3.rec").exists()
