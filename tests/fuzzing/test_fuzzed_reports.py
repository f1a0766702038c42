"""`why report.json` on reports with flipped bits and values that no unstuck has written."""

from __future__ import annotations

import io
import json
import random

import msgspec
import pytest
import spoiling
from made_up import a_run

from kept import evidence_of
from unstuck.cli.why import _judge_again
from unstuck.diagnose import diagnose, report_on
from unstuck.errors import UserError
from unstuck.views.as_json import render
from unstuck.views.console import console_for
from unstuck.views.terminal import STAGES, START, show

SEEDS, EACH = 8, 256  # 2,048
RULES = ("ddp-uneven-batches", "worker-blocked-io", "rendezvous-peer-missing", "dataloader-bound", "restart-loop")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """One of a made-up run, and of real ones that were kept."""
    found = [msgspec.json.encode(diagnose(a_run(tmp_path_factory.mktemp("made") / "run")))]
    for rule in RULES:
        evidence = evidence_of(rule)
        found.append(msgspec.json.encode(report_on(evidence)))
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_spoilt_reports_are_judged_or_refused_in_one_line(tmp_path, reports, seed):
    chance, judged = random.Random(seed), 0
    file = tmp_path / "report.json"

    with spoiling.within_memory():
        for number in range(EACH):
            good = chance.choice(reports)
            if chance.random() < 0.3:
                data = spoiling.text(good, chance)
            else:
                data = json.dumps(spoiling.document(json.loads(good), chance)).encode()
            file.write_bytes(data)
            with spoiling.in_time((seed, number)):
                judged += _is_judged(file)
    assert judged > EACH / 4


def _is_judged(file) -> bool:
    try:
        report = _judge_again(file)
    except UserError:
        return False
    show(report, console_for(io.StringIO()), "x", (START, STAGES))
    render(report)
    assert not [one for one in report.notes if "could not be worked out" in one or "is broken" in one]
    return True
