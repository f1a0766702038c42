"""`unstuck.stage`, `unstuck.progress` and `unstuck.watch` in the user's own code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import Run, environment, write

from unstuck.inside.format import Kind

Recorded = Callable[..., Run]
Started = Callable[..., Run]


def test_a_stage_and_a_progress_are_recorded_with_what_they_are_about(recorded: Recorded) -> None:
    run = recorded("""
        import os, pathlib, unstuck
        for number in range(3):
            with unstuck.stage("decode", item=pathlib.Path("/data/a.jpg")):
                pass
        unstuck.progress("token buffer", 70, 100, unit="tokens")
        with unstuck.stage("tokenise", item="/data/" + "x" * 400 + "/end.txt"):
            os.kill(os.getpid(), 9)
    """)
    # given a process that died in its second stage; then the board says where it was
    process = run.main.process()
    assert process.stages["decode"].count == 3
    (progress,) = process.progress
    assert (progress.name, progress.have, progress.need, progress.unit) == ("token buffer", 70, 100, "tokens")
    stages = {run.main.recording.string(one.key): one for one in run.main.board if one.kind == Kind.STAGE}
    assert (stages["decode"].a, stages["decode"].text) == (0, "")
    assert stages["tokenise"].a == 1
    assert stages["tokenise"].text.endswith("x/end.txt")


def test_stages_and_progress_are_harmless_when_nothing_records(tmp_path: Path) -> None:
    script = write(
        tmp_path / "train.py",
        """
        import unstuck
        with unstuck.stage("decode", item=object()):
            unstuck.progress("rows", 1, 2)
        try:
            with unstuck.stage("decode"):
                raise KeyError("mine")
        except KeyError as error:
            print("reached", error)
        """,
    )
    ended = subprocess.run(
        [sys.executable, script], env=environment(None), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("reached 'mine'\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_odd_names_and_items_are_nobodys_failure(recorded: Recorded) -> None:
    run = recorded("""
        import unstuck

        class Odd:
            def __str__(self):
                raise RuntimeError("not to be asked")
            __repr__ = __fspath__ = __len__ = __str__

        with unstuck.stage("a", item=Odd()):
            pass
        with unstuck.stage(Odd()):
            pass
        with unstuck.stage("c", item="\\udcff"):
            pass
        unstuck.progress("d", 2**80, -1)
        unstuck.progress("e", 1.5)
        print("fine")
    """).succeeded()
    assert run.out == "fine\n"
    assert {"a", "c"} <= run.main.process().stages.keys()


def test_under_the_bootstrap_an_import_of_unstuck_uses_the_copy_that_records(recorded: Recorded) -> None:
    run = recorded("""
        import sys, unstuck
        from torch.utils.data import DataLoader
        assert unstuck.stage.__module__ == "_unstuck_inside.api"
        unstuck.watch()
        for batch in DataLoader([1, 2]):
            pass
        print(sorted(name for name in sys.modules if name.startswith("unstuck.inside")))
    """).succeeded()
    assert run.out == "[]\n"
    assert len(run.facts) == 1
    assert run.main.process().loaders[0].batches == 2


@pytest.mark.scenario
def test_an_import_of_unstuck_before_torch_makes_no_second_copy(started: Started) -> None:
    # given the user's import before ours
    run = started("""
        import unstuck
        stage = unstuck.stage
        import sys
        first = sys.modules["_unstuck_inside"]
        import torch
        from torch.utils.data import DataLoader
        assert sys.modules["_unstuck_inside"] is first
        for batch in DataLoader([1, 2]):
            with stage("train"):
                pass
    """).succeeded()
    (process,) = run.processes
    assert process.stages["train"].count == 2


WATCHED = """
import sys
{first}
import torch
from torch.utils.data import DataLoader

iterator = iter(DataLoader(list(range(12)), batch_size=2, num_workers=2))
next(iterator)
next(iterator)
{later}
total = sum(batch.sum().item() for batch in iterator)
for batch in DataLoader(list(range(4)), batch_size=2, num_workers=1):
    pass
print(total)
"""
WATCH = "import unstuck; unstuck.watch()"


def watched(started: Started, tmp_path: Path, **where: str) -> Run:
    """Recorded by `watch()` alone. No watcher beside it, which is none of inside's business."""
    run = started(
        WATCHED.format(**{"first": "", "later": "", **where}),
        recorded=False,
        variables={"UNSTUCK_WATCHER": ""},
    ).succeeded()
    assert run.out == "60\n"
    folders = list((tmp_path / "unstuck-runs").glob("*/recordings"))
    return Run(run.code, folders[0] if folders else tmp_path, run.out, run.err)


@pytest.mark.scenario
def test_watch_in_the_first_lines_records_everything(started: Started, tmp_path: Path) -> None:
    run = watched(started, tmp_path, first=WATCH)
    assert [one.batches for one in run.main.process().loaders] == [6, 2]
    assert len(run.workers) == 3


@pytest.mark.scenario
def test_a_late_watch_adopts_the_iterator_that_is_alive(started: Started, tmp_path: Path) -> None:
    run = watched(started, tmp_path, later=WATCH)
    adopted, later = run.main.process().loaders
    assert (adopted.batches, adopted.num_workers) == (6, 2)
    assert [one[5] for one in run.main.events(Kind.WAIT, adopted.number)] == [2, 3, 4, 5]
    assert (later.batches, later.passes) == (2, 1)
    assert len(run.workers) == 1
    assert set(run.exits().values().__iter__().__next__()) == {0}


@pytest.mark.scenario
def test_watch_switched_off_records_nothing(started: Started, tmp_path: Path) -> None:
    run = started(WATCHED.format(first=WATCH, later=""), recorded=False, variables={"UNSTUCK": "0"}).succeeded()
    assert run.out == "60\n"
    assert list(tmp_path.glob("unstuck-runs/**/*.rec")) == []


def test_workers_that_come_anew_every_epoch_leave_a_bounded_number_of_files(recorded: Recorded) -> None:
    # given more workers, one after the other, than are kept
    run = recorded("""
        import sys
        from torch.utils.data import DataLoader
        sys.modules["_unstuck_inside.core.process"].KEPT_WORKERS = 6
        loader = DataLoader([1, 2, 3, 4], num_workers=2)
        for epoch in range(10):
            for batch in loader:
                pass
    """).succeeded()
    # then the newest are kept, and the main process knows of all
    assert 4 <= len(run.workers) <= 6
    pids = run.main.process().loaders[0].pids
    assert len(pids) == 20
    assert {one.process().pid for one in run.workers} >= set(pids[-2:])


def test_a_worker_that_did_not_end_in_order_is_never_forgotten(recorded: Recorded) -> None:
    run = recorded("""
        import os, sys
        from torch.utils.data import DataLoader
        sys.modules["_unstuck_inside.core.process"].KEPT_WORKERS = 2

        class Dying:
            def __len__(self):
                return 2
            def __getitem__(self, index):
                os._exit(3)

        try:
            next(iter(DataLoader(Dying(), num_workers=1)))
        except RuntimeError:
            pass
        for epoch in range(6):
            for batch in DataLoader([1, 2], num_workers=1):
                pass
    """)
    first = run.main.process().loaders[0].pids[0]
    assert run.exits()[first] == {3}
    assert first in {one.process().pid for one in run.workers}
    assert len(run.workers) <= 4
