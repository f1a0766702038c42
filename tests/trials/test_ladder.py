"""The ladder: which rungs are climbed, what a failure ends, and what each outcome means."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kept import KEPT
from unstuck import trials
from unstuck.analysis.case import Case
from unstuck.errors import UserError
from unstuck.evidence import Evidence
from unstuck.evidence.loader import Loader
from unstuck.evidence.trial import FAIL, PASS, SKIP, Differences, Measured, Plain, Rung, Settings
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one
from unstuck.trials.attempt import Limits, Outcome, Work
from unstuck.trials.child.rungs import RUNGS
from unstuck.trials.doctor import climb, environment
from unstuck.trials.doctor.ladder import LADDER, NAMES, Step, chosen
from unstuck.trials.doctor.limit import limit_of
from unstuck.trials.doctor.verdicts import _only_alone, from_users
from unstuck.trials.memory import Used

LOADER = {"number": 0, "dataset": "Images", "num_workers": 4, "batch_size": 8, "dataset_length": 100}
FINE: dict[str, dict[str, Any]] = {
    "construct": {},
    "samples": {"samples": [{"index": 0, "seconds": 0.1, "size": 10, "shapes": "float32[2]"}]},
    "collate": {"batch": {"shapes": "float32[8, 2]", "size": 64}, "collated": 0.01},
    "passes": {"batches": [5, 5], "ended": [True, True], "workers": 4},
    "stopping": {"left_in": [0.1, 0.1], "workers": 4},
    "ranks": {"ranks": [{"batches": 3, "ended": True}, {"batches": 3, "ended": True}], "drawn": "DistributedSampler"},
    "benchmark": {"measured": []},
}


@dataclasses.dataclass
class Heard:
    """What a listener is told."""

    ends: list[Rung] = dataclasses.field(default_factory=list)

    def begins(self, step: Step) -> None: ...
    def goes_on(self, step: Step, seconds: float) -> None: ...
    def ended(self, rung: Rung) -> None:
        self.ends.append(rung)


def climbed(monkeypatch, fails: dict[str, dict[str, Any]], only: str | None = None, **loader: Any) -> dict[str, Rung]:
    """A ladder on which no process runs: each trial comes to what is given for it."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def attempt(what: str, name: str, work: Work, options: dict[str, Any], *_: Any) -> Outcome:
        asked.append((name, options))
        facts = {"gave": "DataLoader", "loader": {**LOADER, **loader}, **FINE[what], "done": name not in fails}
        if what == "passes" and not options.get("passes"):
            facts |= {"batches": [5], "ended": [True]}
        facts |= fails.get(name, {})
        return Outcome(work.folder, 1 if name in fails else 0, facts.pop("how", "itself"), 1.0, Used(0, 0), facts, None)

    monkeypatch.setattr(climb, "attempt", attempt)
    heard, work = Heard(), Work("data.py:make", {}, "python", Path("/nowhere"))
    steps = chosen(only, None, quick=False)
    trial = climb.climb(climb.Asked(work, steps, {}, Limits()), Settings(start_method="fork"), heard)
    assert heard.ends == trial.rungs
    return {one.name: one for one in trial.rungs}


def test_every_rung_rests_on_rungs_before_it():
    for number, step in enumerate(LADDER):
        assert set(step.needs) <= set(NAMES[:number])


def test_a_healthy_loader_passes_everywhere(monkeypatch):
    assert {one.status for one in climbed(monkeypatch, {}).values()} == {PASS}


def test_a_failed_rung_ends_what_depends_on_it_and_nothing_else(monkeypatch):
    rungs = climbed(monkeypatch, {"one-worker": {}})

    assert rungs["one-worker"].status == FAIL
    assert rungs["workers"].status == SKIP
    assert rungs["workers"].reason == "after one-worker failed"
    assert rungs["benchmark"].reason == "after workers failed"
    assert rungs["spawn"].status == PASS  # it tells whether the fork is at fault


def test_a_loader_that_cannot_be_spawned_but_is_forked_does_not_fail(monkeypatch):
    rungs = climbed(monkeypatch, {"spawn": {"traceback": "TypeError: cannot pickle '_thread.lock' object"}})

    assert rungs["spawn"].status == SKIP
    assert "works with fork only" in rungs["spawn"].reason
    assert "cannot pickle" in rungs["spawn"].reason
    assert rungs["benchmark"].status == PASS


def test_a_loader_that_spawns_by_itself_is_not_spawned_once_more(monkeypatch):
    assert climbed(monkeypatch, {}, context="spawn")["spawn"].reason.startswith("its workers are started by spawn")


def test_a_loader_without_workers_is_tried_with_two_and_says_so(monkeypatch):
    rungs = climbed(monkeypatch, {}, num_workers=0)

    assert "2 workers tried: it is configured with 0" in rungs["workers"].reason


def test_rungs_that_were_not_chosen_are_not_failed(monkeypatch):
    assert list(climbed(monkeypatch, {}, only="workers,benchmark")) == ["workers", "benchmark"]


def test_a_second_pass_without_data_fails(monkeypatch):
    again = {"batches": [5, 0], "ended": [True, True], "done": True}
    rungs = climbed(monkeypatch, {})
    assert rungs["second-epoch"].status == PASS
    monkeypatch.setitem(FINE, "passes", {**FINE["passes"], **again})
    rungs = climbed(monkeypatch, {}, only="second-epoch")
    assert rungs["second-epoch"].status == FAIL
    assert "its data can be read only once" in rungs["second-epoch"].reason


@pytest.mark.parametrize(
    ("how", "facts", "says"),
    [
        ("stall", {"index": 37}, "no progress for 30 s: loading the sample with index 37"),
        ("time", {"during": "collate"}, "not finished after 60 s (--limit); in collate_fn"),
        ("memory", {}, "stopped by unstuck"),
        ("itself", {"traceback": "Traceback …\nKeyError: 'label'\n"}, "KeyError: 'label'"),
        ("itself", {}, "its process exited with code 1"),
    ],
)
def test_a_failure_has_its_reason(monkeypatch, how, facts, says):
    rung = climbed(monkeypatch, {"sample": {"how": how, **facts}}, only="sample")["sample"]

    assert says in rung.reason


def test_a_target_that_dies_while_it_is_imported_is_bad_input(monkeypatch):
    with pytest.raises(UserError, match="while it imported data"):
        climbed(monkeypatch, {"construct": {"doing": "importing"}})


def test_a_rung_that_is_asked_for_is_tried_also_quickly():
    assert "benchmark" not in [one.name for one in chosen(None, None, quick=True)]
    assert [one.name for one in chosen("benchmark", None, quick=True)] == ["benchmark"]
    with pytest.raises(UserError, match="there is no rung 'many-workers'"):
        chosen("many-workers", None, quick=False)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"descriptors": 32}, "32 files open"),
        ({"shm_free": 0, "shm_size": 0}, "/dev/shm has 0 B free"),
        ({"memory_limit": 1 << 29, "memory_used": 1 << 28}, "256 MiB of memory are free"),
    ],
)
def test_the_environment_fails_only_for_what_is_certain_to_break(change, says):
    plenty = Settings(descriptors=1024, shm_free=1 << 26, shm_size=1 << 26, memory_available=1 << 33)
    assert environment.rung(LADDER[0], plenty).status == PASS

    failed = environment.rung(LADDER[0], msgspec.structs.replace(plenty, **change))

    assert failed.status == FAIL
    assert says in failed.reason


def rates(**by_name: float) -> list[Measured]:
    names = {"own": "as it is", "memory": "from memory", "kept": "nothing sent", "one": "1 worker"}
    return [Measured(names[name], 4 if name != "one" else 1, rate=rate, noise=0.02) for name, rate in by_name.items()]


BUSY = Differences(seconds=0.05, cpu=0.05, processors=4, looks=40, waits={"processor": 1.0})
READS = Differences(seconds=0.05, cpu=0.001, processors=4, looks=40, waits={"read file": 0.9, "processor": 0.1})
SLEEPS = Differences(seconds=0.05, cpu=0.001, processors=4, looks=40, waits={"clock_nanosleep": 1.0})


@pytest.mark.parametrize(
    ("measured", "facts", "limit"),
    [
        (rates(own=80, memory=5000, kept=82, one=20), BUSY, "computing"),
        (rates(own=80, memory=5000, kept=82, one=20), msgspec.structs.replace(BUSY, processors=32), "workers"),
        (rates(own=80, memory=5000, kept=82, one=20), READS, "storage"),
        (rates(own=80, memory=5000, kept=82, one=20), SLEEPS, "waiting"),
        (rates(own=80, memory=5000, kept=82), msgspec.structs.replace(SLEEPS, asked=1 << 20), "storage"),
        (rates(own=80, memory=90, kept=800), msgspec.structs.replace(BUSY, seconds=0.006, cpu=0.006), "hand-over"),
        (rates(own=80, memory=90, kept=800), BUSY, "computing"),  # putting together takes as long without workers
        (rates(own=80, memory=5000, kept=82), msgspec.structs.replace(BUSY, system=0.8, fetched=1 << 20), "storage"),
        (rates(own=80, memory=88, kept=85), BUSY, "balanced"),
        (rates(memory=88, kept=85), BUSY, ""),
    ],
)
def test_the_limit_is_what_makes_the_difference(measured, facts, limit):
    assert limit_of(measured, facts)[0] == limit


def test_a_difference_within_noise_is_none():
    noisy = [Measured("as it is", 2, rate=100, noise=0.3), Measured("from memory", 2, rate=150, noise=0.3)]

    assert limit_of(noisy, BUSY)[0] == "balanced"


def test_plain_reading_has_a_rate_only_where_something_was_read():
    assert Plain(bytes=100, seconds=2.0).rate == 50
    assert Plain().rate is None


def test_a_traceback_is_shown_without_calls_of_ours():
    ours = str(Path(trials.__file__).parent / "child" / "request.py")
    text = (
        f'Traceback\n  File "{ours}", line 1, in main\n    run()\n  File "data.py", line 3, in x\n    y\nKeyError: 1\n'
    )

    assert from_users(text) == 'Traceback\n  File "data.py", line 3, in x\n    y\nKeyError: 1\n'


@pytest.mark.parametrize(("step", "verdict"), [(60.0, "clear"), (0.01, "found"), (None, "found")])
@pytest.mark.parametrize("rule", ["heavy-transform", "slow-storage"])
def test_with_a_training_step_slow_is_what_cannot_feed_it(rule, step, verdict):
    kept = KEPT / rule / "found.json"
    evidence = msgspec.json.decode(kept.read_bytes(), type=Evidence)
    facts = msgspec.structs.replace(evidence.trial.differences, step=step)
    trial = msgspec.structs.replace(evidence.trial, differences=facts)

    judged = judge_one(all_rules()[rule], Case(msgspec.structs.replace(evidence, trial=trial)))

    assert judged.verdict == verdict


@pytest.mark.parametrize(
    ("sampler", "ended", "status"),
    [("RandomSampler", "itself", SKIP), ("DistributedSampler", "itself", FAIL), ("RandomSampler", "stall", FAIL)],
)
def test_a_loader_that_refuses_several_ranks_is_red_only_if_it_is_meant_for_them(sampler, ended, status):
    climbed = climb.Climbed(Settings())
    climbed.loader = Loader(0, sampler=sampler)
    rung = Rung("ranks", "2 ranks", FAIL, "ValueError: one process only", ended=ended)

    assert _only_alone(rung, climbed).status == status


def test_whatever_a_rung_asks_of_the_child_is_a_function_there():
    assert set(RUNGS) == {step.what for step in LADDER if step.what} | {"measure"}
    for place in RUNGS.values():
        module, _, name = place.partition(".")
        rung = getattr(importlib.import_module(f"unstuck.trials.child.rungs.{module}"), name)
        assert list(inspect.signature(rung).parameters) == ["request", "facts"]
