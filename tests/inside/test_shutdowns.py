"""Ending a loader's workers: timed, shown while it goes on, and no trouble wherever it happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from running import Run, meanwhile

from unstuck.evidence.process import Process
from unstuck.inside.format import Kind

pytestmark = pytest.mark.scenario

Recorded = Callable[..., Run]
Started = Callable[..., Run]

SLOW_TO_END = """
import os, time
from torch.utils.data import DataLoader, IterableDataset

class Stream(IterableDataset):
    def __iter__(self):
        yield from range(40)

class SlowToEnd(IterableDataset):
    def __iter__(self):
        yield from range(2)
        time.sleep(1.0)
        yield from range(1000)
"""


@pytest.mark.parametrize("how", ["for batch in loader: break", "iterator = iter(loader); next(iterator); del iterator"])
def test_ending_workers_is_timed_and_shown_while_it_goes_on(recorded: Recorded, tmp_path: Path, how: str) -> None:
    # given a worker that is busy when its loader is left
    seen: list[Process] = []
    run = recorded(
        f"{SLOW_TO_END}\nloader = DataLoader(SlowToEnd(), batch_size=2, num_workers=1)\n{how}\nprint('left')",
        during=meanwhile(
            tmp_path / "recordings", lambda one: one.loaders and one.loaders[0].now == "ending its workers", seen
        ),
    ).succeeded()
    assert seen[0].loaders[0].batches == 1
    # then the time is known, and the board is back where it was
    (loader,) = run.main.process().loaders
    assert loader.shutdowns.count == 1
    assert 0.3 < loader.shutdowns.total < 10
    assert loader.now == "in the loop's body"
    (event,) = run.main.events(Kind.SHUTDOWN)
    assert event[5:7] == [1, 1]


def test_ending_workers_at_the_end_of_every_pass_is_counted_once_each(recorded: Recorded) -> None:
    run = recorded(
        SLOW_TO_END
        + """
for epoch in range(3):
    for batch in DataLoader(Stream(), batch_size=8):
        pass
for epoch in range(3):
    for batch in DataLoader(Stream(), batch_size=8, num_workers=2):
        pass
loader = DataLoader(Stream(), batch_size=8, num_workers=1, persistent_workers=True)
for epoch in range(3):
    for batch in loader:
        pass
del loader
"""
    ).succeeded()
    none, several, persistent = run.main.process().loaders
    assert [one.shutdowns.count for one in (none, several, persistent)] == [0, 3, 1]
    assert several.now == persistent.now == "between passes"


def test_an_iterator_that_is_thrown_away_late_does_not_hide_the_one_in_use(recorded: Recorded) -> None:
    run = recorded(
        SLOW_TO_END
        + """
loader = DataLoader(Stream(), batch_size=2, num_workers=1)
iterator = iter(loader)
next(iterator)
iterator = iter(loader)
next(iterator)
os.kill(os.getpid(), 9)
"""
    )
    (loader,) = run.main.process().loaders
    assert (loader.now, loader.batches, loader.shutdowns.count) == ("in the loop's body", 2, 1)


def test_an_iterator_that_is_alive_at_the_end_of_the_interpreter_is_no_trouble(started: Started) -> None:
    run = started(
        SLOW_TO_END
        + """
class Holder:
    pass

holder = Holder()
holder.me = holder  # only the last collection finds it
holder.iterators = [iter(DataLoader(Stream(), num_workers=1, persistent_workers=bool(turn))) for turn in range(2)]
for iterator in holder.iterators:
    next(iterator)
"""
    )
    assert run.succeeded().out == ""
    assert run.main.process().adapters_failed == []
