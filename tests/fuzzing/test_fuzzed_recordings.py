"""Recordings with torn, flipped and made-up words: each is read or left out, in bounded time and memory, and told."""

from __future__ import annotations

import io
import random

import pytest
import spoiling
from made_up import a_run

from unstuck.diagnose import diagnose
from unstuck.views.as_json import render
from unstuck.views.console import console_for
from unstuck.views.terminal import show

SEEDS = 8
LOOKS, AT_ONCE = 64, 4  # 8 seeds, 64 looks at four spoilt recordings each: 2,048


@pytest.mark.parametrize("seed", range(SEEDS))
def test_spoilt_recordings_end_in_a_report(tmp_path, seed):
    folder = a_run(tmp_path / "run")
    good = {path: path.read_bytes() for path in sorted((folder / "recordings").glob("*.rec"))}
    chance = random.Random(seed)

    with spoiling.within_memory():
        for number in range(LOOKS):
            spoilt = {path: spoiling.recording(good[path], chance) for path in chance.sample(sorted(good), AT_ONCE)}
            for path, (_, data) in spoilt.items():
                path.write_bytes(data)
            with spoiling.in_time((seed, number, [how for how, _ in spoilt.values()])):
                report = diagnose(folder)
                show(report, console_for(io.StringIO()))
                render(report)
                assert not [one for one in report.notes if "could not be worked out" in one or "is broken" in one]
            for path in spoilt:
                path.write_bytes(good[path])


def test_the_good_ones_are_read_without_a_note(tmp_path):
    report = diagnose(a_run(tmp_path / "run"))

    assert report.notes == []
    assert [one.rule for one in report.findings if one.role == "root"] == ["worker-oom-killed"]
