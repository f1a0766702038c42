"""How evidence is kept: thinned without changing what is said of it, in lines that can be read, and small in all."""

from __future__ import annotations

import json

import msgspec
import pytest

from capture import LINE, kept, kept_text, laid_out, newest, said, spread, thinned, unlike, without_defaults
from kept import KEPT
from unstuck.evidence import Evidence, Host, Run, Sample
from unstuck.evidence.basics import Timing
from unstuck.evidence.process import Process

ALLOWED = 4_000_000  # bytes of all kept evidence


def test_all_kept_evidence_is_below_four_megabytes():
    assert sum(path.stat().st_size for path in kept()) < ALLOWED


def test_a_layout_says_the_same_as_its_data():
    data = msgspec.json.decode((KEPT / "worker-killed" / "found.json").read_bytes())

    assert json.loads(laid_out(data)) == data


def test_a_record_that_fits_is_one_line():
    frames = [{"file": "/project/train.py", "line": line, "function": "load_a_sample"} for line in range(3)]

    assert laid_out(frames).splitlines() == [
        '[{"file":"/project/train.py","line":0,"function":"load_a_sample"},',
        ' {"file":"/project/train.py","line":1,"function":"load_a_sample"},',
        ' {"file":"/project/train.py","line":2,"function":"load_a_sample"}]',
    ]


def test_numbers_share_lines_of_bounded_length():
    lines = laid_out([float(number) for number in range(200)]).splitlines()

    assert len(lines) < 10
    assert max(map(len, lines)) <= LINE


def test_an_empty_list_and_null_stay():
    assert laid_out({"a": [], "b": None, "c": {}}) == '{"a":[],"b":null,"c":{}}'


def test_the_first_and_the_last_sample_stay_at_regular_distance():
    assert spread(list(range(33)), 4) == [0, 4, 8, 12, 16, 20, 24, 28, 32]
    assert spread(list(range(30)), 4) == [0, 4, 8, 12, 16, 20, 24, 28, 29]


@pytest.mark.parametrize("count", range(1, 12))
def test_a_few_samples_stay_however_far_they_are_thinned(count):
    left = spread(list(range(count)), 100)

    assert len(left) >= min(count, 4)
    assert (left[0], left[-1]) == (0, count - 1)


def test_the_newest_are_kept_as_a_smaller_ring_would():
    assert newest([1, 2, 3, 4], 2) == [3, 4]


def test_main_threads_stay_and_others_that_stand_alike_are_kept_once():
    main, other = ({"pid": 1, "tid": tid, "name": "serve", "frames": [{"line": 5}]} for tid in (1, 2))
    same, elsewhere = {**other, "tid": 3}, {**other, "tid": 4, "frames": [{"line": 6}]}

    assert unlike([main, {**main}, other, same, elsewhere], 1) == [main, main, other, elsewhere]


def test_what_a_field_says_unsaid_and_what_nobody_reads_is_left_out():
    cost = {"count": 3, "total": 0.0, "p50": 0.0}
    data = {"node": "n", "pid": 1, "parent": 0, "role": "main", "cost": cost, "opened": 0.0, "unheard of": 1}
    process = msgspec.convert(data, type=Process)

    lean = without_defaults(data, process)

    assert lean == {"node": "n", "pid": 1, "parent": 0, "role": "main", "cost": {"count": 3}}
    assert msgspec.convert(lean, type=Process) == process
    assert process.cost == Timing(count=3)


def test_samples_of_a_calm_run_are_thinned_and_the_same_is_said():
    samples = [Sample(at=float(at), available=1 << 33, total=1 << 34) for at in range(33)]
    data = msgspec.to_builtins(Evidence(run=Run(id="x", status=0), host=[Host("n", samples=samples)]))

    fewer = thinned(data)

    assert fewer["host"][0]["samples"] == data["host"][0]["samples"][::8]
    assert said(fewer) == said(data)


def test_samples_of_ranks_that_failed_are_thinned_less():
    samples = [Sample(at=float(at), available=1 << 33, total=1 << 34) for at in range(33)]
    ranks = [Process("n", pid, 1, "main", rank=pid - 10, world=2) for pid in (10, 11)]
    data = msgspec.to_builtins(Evidence(run=Run(id="x", status=1), recording=ranks, host=[Host("n", samples=samples)]))

    assert thinned(data)["host"][0]["samples"] == data["host"][0]["samples"][::3] + data["host"][0]["samples"][-1:]


def test_samples_that_a_verdict_needs_stay():
    data = msgspec.json.decode((KEPT / "worker-oom-killed" / "found.json").read_bytes())

    assert thinned(data)["host"][0]["samples"] == data["host"][0]["samples"]


def test_what_is_kept_would_be_written_the_same_again():
    text = (KEPT / "shm-exhausted" / "found.json").read_text()
    data = msgspec.json.decode(text)

    assert json.loads(kept_text(data)).keys() == data.keys()
    assert laid_out(data) + "\n" == text
