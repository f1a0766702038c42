"""The first batch: slow, told from a slow first step, from a loader that is always slow, and from one that spins."""

from __future__ import annotations

import json
import sys

import pytest

from stuck import place_at, wait_for
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Host, Memory, Run, Sample
from unstuck.evidence.basics import Place, Timing
from unstuck.evidence.loader import Fetching, Loader
from unstuck.evidence.process import Process, Progress
from unstuck.probes.source_code import NEVER, gone_over

FILLING = """
import time, torch, unstuck

def batches(needed):
    kept = []
    while True:
        while len(kept) < needed:
            kept.extend(range(100))
            time.sleep(0.2)
            unstuck.progress("kept", len(kept), needed, unit="tokens")
        yield torch.tensor(kept)

print("begins", flush=True)
next(batches(30_000))
"""


def timing(*seconds: float) -> Timing:
    half = sorted(seconds)[len(seconds) // 2] if seconds else 0.0
    return Timing(len(seconds), sum(seconds), max(seconds, default=0.0), half, half, half)


def run_of(**main: object) -> Evidence:
    known: dict[str, object] = {"node": "n", "pid": 1, "parent": 0, "role": "main", "last_sign": 60.0, "ended": 60.0}
    return Evidence(
        run=Run(id="r", status=0 if "alive" not in main else None),
        recording=[Process(**(known | main))],  # type: ignore[arg-type]
        host=[Host(node="n", cpus=2, samples=[Sample(at=60.0, processes=[Memory(1)])])],
    )


def trained(
    first: float, *later: float, body: float = 0.1, workers: int = 0, iterable: bool = False, **more: object
) -> Evidence:
    """Asked for at 10 s. One process. Nearly all of the first batch is one sample."""
    loader = Loader(
        number=1, num_workers=workers, batch_size=4, created=Place("/a/train.py", 7, "main"), began=10.0, passes=1,
        reads_at=Place("/a/train.py", 3, "Rows.__getitem__"), first=[first], first_at=10.0 + first,
        batches=1 + len(later), optimizer_steps=1 + len(later), waits=timing(*later), first_waits=timing(first),
        bodies=timing(*[body] * len(later)), recent_waits=list(later), iterable=iterable,
    )  # fmt: skip
    end = 10.0 + first + sum(later) + body * len(later)
    fetching = Fetching(loader=1, samples=40, sample_times=Timing(40, first, first, 0.001))
    return run_of(loaders=[loader], fetching=[fetching], ended=end, last_sign=end, **more)


def roots(evidence: Evidence) -> list[str]:
    return [one.rule for one in report_on(evidence).findings if one.role == "root"]


def test_a_first_batch_of_the_datasets_own_code_is_told_with_its_line() -> None:
    (found,) = report_on(trained(14.0, *[0.001] * 20, iterable=True)).findings

    assert found.rule == "first-batch-slow"
    assert "the first batch took 14 s, nearly all in one sample; later ones" in found.cause
    assert "took 14 s of the 16 s since it was requested" in found.seen[0]
    assert "one sample took 14 s in Rows.__getitem__ (train.py:3), most others 1 ms" in found.seen


def test_one_sample_of_many_that_takes_long_once_is_no_warm_up() -> None:
    assert roots(trained(14.0, *[0.001] * 20)) == []


@pytest.mark.parametrize(
    ("first", "later", "body"),
    [
        (8.0, [0.001] * 20, 0.1),  # not long
        (14.0, [0.001] * 20, 2.0),  # a small part of the run
        (0.1, [0.001] * 20, 2.0),  # a slow step is none
    ],
)
def test_a_first_batch_that_nobody_minds_is_none(first: float, later: list[float], body: float) -> None:
    assert roots(trained(first, *later, body=body)) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_few_batches_that_are_all_slow_are_no_warm_up(workers: int) -> None:
    later = [3.0] * 5 if not workers else [0.01, 3.0, 0.01, 3.0, 0.01]
    assert roots(trained(3.0, *later, workers=workers)) == ["loader-always-slow"]


def test_from_ten_batches_on_that_is_dataloader_bound() -> None:
    assert roots(trained(1.0, *[1.0] * 12)) == ["dataloader-bound"]


@pytest.mark.parametrize(("now", "rules"), [("about to ask for a batch", []), ("waiting for a batch", ["found"])])
def test_who_sets_up_a_logger_between_iter_and_next_does_not_wait_for_a_batch(now: str, rules: list[str]) -> None:
    loader = Loader(number=1, iterable=True, began=10.0, passes=1, now=now, now_since=12.0, starts=timing(0.1))
    loading = Fetching(loader=1, samples=9, now_since=59.0)
    found = run_of(loaders=[loader], fetching=[loading], first_sample=15.0, alive=True, ended=None)

    assert roots(found) == ["first-batch-slow" for _ in rules]


def told(have: int, since: float, **more: object) -> list[Progress]:
    return [Progress("kept", have, 1000, "tokens", since, first=10.0, **more)]  # type: ignore[arg-type]


def test_a_generator_is_known_by_what_it_tells() -> None:
    steps = {"optimizer_steps": 20, "first_step": 24.5, "last_step": 26.0, "ended": 26.0}
    assert roots(run_of(progress=told(1000, 24.0), **steps)) == ["first-batch-slow"]
    # the first time it was filled counts, not the newest
    assert roots(run_of(progress=told(900, 25.9, rose=14.0), **steps)) == ["first-batch-slow"]


def test_a_slow_first_step_is_no_slow_first_batch() -> None:
    steps = {"optimizer_steps": 20, "first_step": 24.5, "last_step": 26.0, "ended": 26.0}
    assert roots(run_of(progress=told(1000, 12.0), **steps)) == []
    assert roots(run_of(progress=told(900, 25.9, rose=2.0), **steps)) == []
    # it goes on with the steps: that is how far the training has come
    assert roots(run_of(progress=told(20, 25.9), **steps)) == []


def test_a_buffer_that_fills_says_when_it_will_be_full() -> None:
    (found,) = report_on(run_of(progress=told(500, 59.9), alive=True, ended=None)).findings

    assert (found.rule, found.symptom) == ("first-batch-slow", "slow")
    assert "fills kept before the first batch: 50 % full, ready in about 49.9 s." in found.cause
    assert "kept 500/1,000 tokens (50 %)" in " ".join(found.seen)
    assert found.remedy.text == "Wait: the first batch is coming, in about 49.9 s"
    # and one that has not moved for long is none that fills
    assert roots(run_of(progress=told(500, 30.0), alive=True, ended=None)) == []


LOOP = """
def documents(self):
    while True:
        for path in OVER:
            yield path
"""


@pytest.mark.parametrize("over", ["self.files", "enumerate(self.files)", "self.files[2:]"])
def test_a_loop_variable_without_a_value_shows_that_its_loop_was_never_entered(tmp_path, over: str) -> None:
    file = tmp_path / "data.py"
    file.write_text(LOOP.replace("OVER", over))

    assert list(gone_over(str(file), 4, {"self": "<Loader>"}).values()) == [NEVER]
    assert not any(gone_over(str(file), 4, {"self": "<Loader>", "path": "'a'"}).values())
    assert not any(gone_over(str(file), 4, {}).values())  # nothing is known of any variable


def test_what_takes_its_time_to_give_a_first_item_may_never_have_been_entered(tmp_path) -> None:
    file = tmp_path / "data.py"
    file.write_text(LOOP.replace("OVER", "sorted(self.files)"))
    assert not any(gone_over(str(file), 4, {"self": "<Loader>"}).values())


def judged(unstuck, target):
    """The report, once it has a finding."""
    report = json.loads(unstuck("why", target, "--json").stdout)
    return report if report["findings"] else None


@pytest.mark.scenario
def test_a_generator_that_fills_its_buffer_is_slow_not_stuck_while_it_does(tmp_path, unstuck) -> None:
    with place_at(tmp_path) as place:
        place.run("--run-dir", tmp_path / "runs", program=FILLING)
        wait_for(lambda: "begins" in place.out)
        (folder,) = (tmp_path / "runs").iterdir()
        main = place.trainings("train.py")[0]
        for target in (folder, main):
            # when it is looked at until it has lasted long enough for a verdict
            report = wait_for(lambda target=target: judged(unstuck, target))
            (found,) = report["findings"]
            assert (report["state"], found["rule"]) == ("slow", "first-batch-slow")
            assert "full, ready in about" in found["cause"]


@pytest.mark.scenario
def test_nobody_calls_it_stuck_where_nothing_is_recorded(tmp_path, unstuck) -> None:
    with place_at(tmp_path) as place:
        main = place.start(sys.executable, place.write(FILLING)).pid
        wait_for(lambda: "begins" in place.out)
        report = json.loads(unstuck("why", main, "--json").stdout)
        assert report["findings"] == []
        assert "train.py:9 (batches)" in report["activities"][0]["doing"]
