"""Run folders whose other files are spoilt: run.json, journals, snapshots, answers, stacks, names of files."""

from __future__ import annotations

import io
import os
import random

import msgspec
import pytest
import spoiling
from made_up import a_run

from unstuck.diagnose import diagnose
from unstuck.errors import UserError
from unstuck.evidence.live import Stall
from unstuck.probes import run_history
from unstuck.views.as_json import render
from unstuck.views.console import console_for
from unstuck.views.terminal import show

SEEDS = 8
LOOKS = 250  # of each seed: 2,000 folders are tried
SOON = 2  # seeds that `make test` tries; all of them are tried by `make scenarios`
LATER = [pytest.mark.scenario, pytest.mark.calm]
SPOILT = 2  # files of ours in each; and one beside them with a name that is none of ours
NAMES = (
    "x.rec",
    ".rec",
    "a.b.c.d.rec",
    "h.1.99999999999999999999.1.rec",
    "h.1.²..rec",
    "\udcff.1.2.3.rec",
    "h.-1.-2.-3.rec",
)
UNRECORDED = (
    "unrecorded-x",
    "unrecorded-1-x",
    "unrecorded-1-99999999999999999999",
    "unrecorded-\udcff-1",
    "unrecorded-1-2",
)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=LATER if seed >= SOON else []) for seed in range(SEEDS)])
def test_spoilt_folders_end_in_a_report_or_in_one_line(tmp_path, seed):
    folder = a_run(tmp_path / "run")
    stood = msgspec.structs.replace(diagnose(folder).evidence, stall=Stall(rank=0, pid=1000, since=3.0, seconds=9.0))
    run_history.save_snapshot(msgspec.structs.replace(diagnose(folder), evidence=stood), folder)
    good = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    others = [path for path in good if path.suffix in (".flight", ".stacks", ".json", ".jsonl")]
    assert len(others) == 5
    chance, judged = random.Random(seed), 0

    with spoiling.within_memory():
        for number in range(LOOKS):
            # A description that cannot be read is the end of it: the rest is spoilt more often without.
            chosen = chance.sample([one for one in others if one.name != "run.json" or number % 4 == 0], SPOILT)
            for path in chosen:
                path.write_bytes(spoiling.text(good[path], chance))
            odd = folder / "recordings" / chance.choice(NAMES + UNRECORDED)
            odd.write_bytes(chance.choice((b"", b"x", good[chance.choice(sorted(good))])))
            with spoiling.in_time((seed, number, chosen)):
                judged += _is_judged(folder)
            for path in chosen:
                path.write_bytes(good[path])
            os.unlink(odd)
    assert judged > LOOKS / 2


def _is_judged(folder) -> bool:
    try:
        report = diagnose(folder)
    except UserError:
        return False
    show(report, console_for(io.StringIO()))
    render(report)
    assert not [one for one in report.notes if "could not be worked out" in one or "is broken" in one]
    return True
