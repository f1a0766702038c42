"""Waits that come in stripes are told as such, and only those."""

from __future__ import annotations

import msgspec
import pytest

from capture import words
from kept import KEPT
from unstuck.analysis.loading import stripes
from unstuck.evidence import Evidence
from unstuck.evidence.loader import Loader

HERE = KEPT / "dataloader-bound"


def striped() -> Evidence:
    return msgspec.json.decode((HERE / "striped.json").read_bytes(), type=Evidence)


def loader(waits: list[float], workers: int = 4) -> Loader:
    return Loader(number=1, num_workers=workers, recent_waits=waits)


def test_a_loader_whose_workers_run_in_step_is_told_in_exactly_these_words():
    assert words("dataloader-bound", striped()) == (HERE / "striped.txt").read_text()


def test_the_words_tell_how_often_the_loop_stands_still():
    assert "one batch in 4 takes" in " ".join(words("dataloader-bound", striped()).split())


def test_an_evenly_slow_loader_is_not_called_striped():
    found = msgspec.json.decode((HERE / "found.json").read_bytes(), type=Evidence)

    assert "work in step" not in words("dataloader-bound", found)


def test_one_long_wait_in_as_many_batches_as_there_are_workers_is_a_stripe():
    found = stripes(loader([0.01, 0.0, 0.02, 0.8] * 6))

    assert found is not None
    assert (found.every, round(found.long, 3), round(found.between, 3)) == (4, 0.8, 0.01)


@pytest.mark.parametrize(
    "waits",
    [
        [0.2, 0.21, 0.19, 0.2] * 6,  # even
        [0.0, 0.0, 0.8] * 8,  # regular, but not the workers'
        [0.01, 0.0, 0.02, 0.8] * 3,  # too few
        [0.01, 0.01, 0.01, 0.03] * 2 + [0.9] + [0.01] * 15,  # one spike
        [0.0, 0.7, 0.7, 0.0, 0.7, 0.0, 0.0, 0.7] * 3,  # in no order
    ],
)
def test_other_waits_are_not(waits):
    assert stripes(loader(waits)) is None
