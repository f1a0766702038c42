"""Loggers that cost and loggers that do not, on evidence that is made up: shares, seconds, one call that stands."""

from __future__ import annotations

import json

import pytest

from unstuck.analysis.case import Case
from unstuck.analysis.side_work import kind_of, library
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Host, Memory, Run, Sample
from unstuck.evidence.basics import Place, Timing
from unstuck.evidence.finding import Finding, Remedy
from unstuck.evidence.live import Seen, Task
from unstuck.evidence.loader import Call, Gap, Loader, Logger, Part
from unstuck.evidence.process import Process
from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.format import APART, Kind
from unstuck.logs.files import Settings
from unstuck.logs.rank import NOTES, RING, MainProcess
from unstuck.recordings.tail import Tail
from unstuck.reporting.notes import acquitted

LINE = Place("/code/train.py", 30, "fit")
STEPS = 200
LAYOUT = f.Layout(board=16, totals=16, ring=64, notes=64, strings=8192, last_words=4096)


def timing(count: int, each: float, longest: float | None = None) -> Timing:
    return Timing(count, count * each, longest or each, each, each, each)


def trained(each: float, step: float, *, name: str = "wandb.log", what: str = "logger", **facts: object) -> Evidence:
    """A loop of 200 steps with one call in each."""
    between = [Part(what, name, STEPS * each, STEPS, LINE)]
    bodies = timing(STEPS, each + step)
    loader = Loader(1, length=STEPS, batches=STEPS, passes=1, between=between, between_of=bodies, bodies=bodies)
    calls = [Call(what, name, LINE, timing(STEPS, each), at=1.0, last=60.0)]
    known = {"loaders": [loader], "calls": calls, "ended": 100.0, "last_sign": 100.0, **facts}
    main = Process("a", 10, 1, "main", **known)  # type: ignore[arg-type]
    return Evidence(run=Run("x", command=["python", "train.py"], status=0), recording=[main])


def found(evidence: Evidence) -> list[Finding]:
    return [one for one in report_on(evidence).findings if one.rule.startswith(("logger", "wandb", "slow-output"))]


def test_a_call_of_a_hundred_milliseconds_in_every_step_is_told_with_its_price_for_an_epoch():
    (only,) = found(trained(0.1, 0.1))

    assert only.rule == "logger-in-hot-loop"
    assert only.where == LINE
    assert only.cause == "Logging takes 50 % of the loop: wandb.log costs 99.5 ms in every step."
    assert any("200 x 99.5 ms = 19.9 s" in one for one in only.seen)
    assert only.alternatives[-1].commands == ["WANDB_MODE=disabled unstuck run -- python train.py"]


@pytest.mark.parametrize(
    ("each", "step"),
    [
        (0.0004, 0.0005),  # scalars in a loop that does next to nothing
        (0.02, 0.3),  # a twentieth
        (0.004, 0.004),  # half of it, but of a step that takes no time
    ],
)
def test_calls_that_cost_little_are_nobodys_finding(each, step):
    assert found(trained(each, step)) == []


def test_one_long_call_among_short_ones_is_set_up_and_no_cost_of_a_step():
    evidence = trained(0.0005, 0.01)
    loader = evidence.recording[0].loaders[0]
    first = Part("logger", "wandb.log", 5.0 + STEPS * 0.0005, STEPS, LINE)
    calls = [Call("logger", "wandb.log", LINE, timing(STEPS, 0.0255, longest=5.0))]
    slow = Loader(1, length=STEPS, batches=STEPS, between=[first], between_of=loader.between_of, bodies=loader.bodies)

    assert found(Evidence(run=Run("x"), recording=[Process("a", 10, 1, "main", loaders=[slow], calls=calls)])) == []


def test_what_is_left_aside_is_said_and_the_numbers_agree():
    first = Part("logger", "wandb.log", 5.0 + STEPS * 0.1, STEPS, LINE)
    bodies = timing(STEPS, 0.225)
    loader = Loader(1, length=STEPS, batches=STEPS, between=[first], between_of=bodies, bodies=bodies)
    calls = [Call("logger", "wandb.log", LINE, timing(STEPS, 0.125, longest=5.0))]
    main = Process("a", 10, 1, "main", loaders=[loader], calls=calls)
    (only,) = found(Evidence(Run("x"), [main]))

    assert "takes 50 % of the loop" in only.cause
    assert "costs 100 ms in every step" in only.cause
    assert any("the longest call of each line, 5 s together, is not counted" in one for one in only.seen)
    assert "200 steps took 40 s, 100 ms each without these calls" in only.seen


@pytest.mark.parametrize(
    ("length", "words"),
    [(20_000, "every 300 steps"), (1_000, "every 100 steps"), (30, "every 3 steps"), (12, "once an epoch")],
)
def test_how_often_is_never_so_seldom_that_no_curve_is_left(length, words):
    bodies = timing(STEPS, 0.24)
    parts = [Part("http", "POST host:80", STEPS * 0.2, STEPS, LINE)]
    loader = Loader(1, length=length, batches=STEPS, between=parts, between_of=bodies, bodies=bodies)
    (only,) = found(Evidence(Run("x"), [Process("a", 10, 1, "main", loaders=[loader])]))

    assert words in only.remedy.text
    assert all(code.startswith("if step % ") for code in only.remedy.code)


def test_a_run_of_a_few_steps_is_told_no_number():
    bodies = timing(15, 0.24)
    parts = [Part("http", "POST host:80", 15 * 0.2, 15, LINE)]
    loader = Loader(1, length=9_000, batches=15, between=parts, between_of=bodies, bodies=bodies)
    (only,) = found(Evidence(Run("x"), [Process("a", 10, 1, "main", loaders=[loader], ended=9.0, last_sign=9.0)]))

    assert "every few steps" in only.remedy.text


def test_histograms_are_changed_where_watch_was_called():
    evidence, watched = trained(0.1, 0.02, name="wandb.watch"), Place("/code/train.py", 8, "main")
    evidence.recording[0].calls.append(Call("logger", "wandb.watch", watched, timing(1, 0.01), at=0.5, last=0.5))
    (only,) = found(evidence)

    assert only.where == watched
    assert "wandb.watch costs" in only.cause
    assert any("train.py:30 (fit): wandb.watch, 200 calls" in one for one in only.seen)


def test_rows_of_a_table_are_told_as_bursts():
    (only,) = found(trained(0.1, 0.02, name="wandb.Table.add_data"))

    assert "wandb.Table.add_data, 200 bursts of 100 ms" in only.seen[0]
    assert only.remedy.text.startswith("Log tables every")
    assert only.alternatives == []


@pytest.mark.parametrize(
    ("name", "what", "words"),
    [
        ("wandb.Image", "logger", 'file_type="jpg"'),
        ("SummaryWriter.add_histogram", "logger", "Compute histograms every"),
        ("wandb.watch", "logger", "wandb.watch(model, log_freq="),
        ("POST 127.0.0.1:80", "http", "Collect the values and send them together every"),
        ("mlflow.log_metric", "logger", "enable_async_logging"),
    ],
)
def test_the_remedy_depends_on_what_it_was(name, what, words):
    (only,) = found(trained(0.1, 0.02, name=name, what=what))

    ways = (only.remedy, *only.alternatives)
    assert any(words in text for each in ways for text in (each.text, *each.code))


def test_a_run_without_wandb_proves_nothing_about_images_and_is_not_offered():
    (only,) = found(trained(0.1, 0.02, name="wandb.Image"))

    assert not any(each.commands for each in (only.remedy, *only.alternatives))


def test_names_tell_library_and_kind():
    names = ["wandb.log", "SummaryWriter.add_image", "mlflow.log_artifact", "POST host:80", "wandb.Histogram"]

    assert [library(one) for one in names] == ["wandb", "tensorboard", "mlflow", "", "wandb"]
    kinds = [kind_of(Part("logger" if "." in one and " " not in one else "http", one, 1.0)) for one in names]
    assert kinds == ["scalars", "media", "media", "request", "histograms"]


def boundary(seconds: float) -> Gap:
    return Gap(10.0, seconds + 0.2, 1, [Part("logger", "wandb.log_artifact", seconds, 1, LINE)])


@pytest.mark.parametrize(("seconds", "expected"), [(4.0, ["logger-blocks-epoch-end"]), (0.5, [])])
def test_uploads_between_passes_are_told_from_a_second_each_on(seconds, expected):
    loader = Loader(1, batches=90, passes=4, boundaries=[boundary(seconds)] * 3)
    main = Process("a", 10, 1, "main", loaders=[loader], ended=60.0, last_sign=60.0)

    assert [one.rule for one in found(Evidence(run=Run("x"), recording=[main]))] == expected


def test_lines_that_took_next_to_nothing_between_passes_are_not_told():
    short = Part("logger", "SummaryWriter.add_scalar", 0.0011, 1, LINE)
    gaps = [boundary(4.0), Gap(20.0, 4.2, 2, [*boundary(4.0).parts, short])]
    main = Process("a", 10, 1, "main", loaders=[Loader(1, batches=90, passes=3, boundaries=gaps)], last_sign=60.0)
    (only,) = found(Evidence(run=Run("x"), recording=[main]))

    assert "other calls" not in only.cause
    assert not any("add_scalar" in one for one in only.seen)


@pytest.mark.parametrize(
    ("name", "now", "expected"),
    [
        ("wandb.init", "", "wandb-init-timeout"),
        ("wandb.finish", "between passes", "wandb-finish-hang"),
        ("POST host:80", "between passes", "logger-no-answer"),
        ("POST host:80", "in the loop's body", "logger-no-answer"),
    ],
)
def test_a_call_that_does_not_come_back_is_told_by_where_it_stands(name, now, expected):
    what = "http" if " " in name else "logger"
    loaders = [Loader(1, batches=9, passes=1, now=now)] if now else []
    calls = [Call(what, name, LINE, timing(3, 0.1), since=20.0)]
    main = Process("a", 10, 1, "main", loaders=loaders, calls=calls, alive=True)
    (only,) = found(Evidence(run=Run("x"), recording=[main], looked_at=81.0))

    assert (only.rule, only.symptom, only.where) == (expected, "waiting" if what == "http" else "stuck", LINE)


@pytest.mark.parametrize(("what", "name", "count"), [("http", "POST host:80", 0), ("logger", "wandb.log", 1)])
def test_a_server_is_given_a_minute_to_answer_and_a_logger_is_not(what, name, count):
    calls = [Call(what, name, LINE, timing(3, 0.1), since=20.0)]
    loader = Loader(1, batches=9, passes=1, now="in the loop's body")
    main = Process("a", 10, 1, "main", loaders=[loader], calls=calls, alive=True)

    assert len(found(Evidence(run=Run("x"), recording=[main], looked_at=35.0))) == count


def test_a_call_that_usually_takes_long_is_given_its_time():
    calls = [Call("logger", "wandb.log_artifact", LINE, timing(3, 30.0), since=20.0)]
    loader = Loader(1, batches=9, passes=1, now="between passes")
    main = Process("a", 10, 1, "main", loaders=[loader], calls=calls, alive=True)

    assert found(Evidence(run=Run("x"), recording=[main], looked_at=60.0)) == []


def test_rows_that_are_lost_are_told_and_rows_put_together_are_not():
    def judged(lost: int, mode: str = "offline") -> list[str]:
        loggers = [Logger("wandb", mode=mode, uncommitted=50, lost=lost, lost_at=LINE)]
        return [one.rule for one in found(Evidence(Run("x"), [Process("a", 10, 1, "main", loggers=loggers)]))]

    assert judged(49) == ["wandb-rows-lost"]
    assert judged(0) == judged(9) == judged(49, "disabled") == []


def looks(waits: list[str]) -> list[Host]:
    samples = [Sample(at=float(at), processes=[Memory(10, waits=one)]) for at, one in enumerate(waits, 1)]
    return [Host("a", samples=samples)]


@pytest.mark.parametrize(("blocked", "expected"), [(8, ["slow-output"]), (2, [])])
def test_a_loop_that_waits_for_a_slow_terminal_is_told(blocked, expected):
    loader = Loader(1, batches=90, passes=1, began=0.5)
    main = Process("a", 10, 1, "main", loaders=[loader], ended=60.0, last_sign=60.0)
    waits = ["write terminal"] * blocked + ["futex"] * (12 - blocked)

    evidence = Evidence(run=Run("x"), recording=[main], host=looks(waits))
    assert [one.rule for one in found(evidence)] == expected


def root(symptom: str) -> Finding:
    return Finding("c", [], Remedy("r"), rule="dataloader-bound", symptom=symptom)


def test_a_logger_that_costs_nothing_is_acquitted_where_a_run_is_slow_for_another_reason():
    loggers = [Logger("wandb", mode="online")]
    evidence = trained(0.0003, 0.1, loggers=loggers)

    assert acquitted(Case(evidence), [root("slow")]) == [
        "wandb (online) is not the cause: 200 calls took 300 µs each, 60 ms in all, 0.06 % of the run. To see for "
        "yourself: WANDB_MODE=disabled unstuck run -- python train.py"
    ]
    assert acquitted(Case(evidence), [root("crashed")]) == acquitted(Case(evidence), []) == []
    assert acquitted(Case(trained(0.2, 0.1, loggers=loggers)), [root("slow")]) == []


def test_the_log_tells_mode_failures_and_what_a_pass_spent(tmp_path):
    recorder = Recorder(str(tmp_path / "node.1.2.3.rec"), LAYOUT)
    recorder.words[f.H_ROLE] = f.ROLE_MAIN
    recorder.publish()
    main = MainProcess(Tail(recorder.path, RING, NOTES), Settings())
    main.called("[Rank 1]")
    at = recorder.words[f.H_MONOTONIC]
    where = {"file": "/code/train.py", "line": 12, "function": "main"}
    facts = {"name": "wandb", "mode": "offline", "folder": "/w/offline-run-1", "where": where}
    recorder.note(Kind.LOGGER, recorder.intern("wandb"), at, 0, recorder.intern(json.dumps(facts)))
    key = recorder.intern(APART.join(("logger", "wandb.log", "/code/train.py", "30", "fit")))
    recorder.note(Kind.CALL, key, at, 0)
    recorder.event(Kind.ITERATOR, 1, at, 1000, 1)
    for turn in range(4):
        recorder.event(Kind.CALL, key, at + turn * 10**6, 3 * 10**5)
    recorder.note(Kind.CALL, key, at, 10**6, 1, recorder.intern("TypeError: no dictionary"))
    recorder.event(Kind.PASS_END, 1, at + 10**9, 0, 4, 1)

    lines = main.lines(main.tail.header[f.H_WALL] / 1e9 + 5, final=True)
    assert [one.text for one in sorted(lines) if one.name == "logger"] == [
        "[Rank 1] [WANDB] Mode: offline, folder /w/offline-run-1, set up at train.py:12",
        "[Rank 1] ✗ ERROR in wandb.log at /code/train.py:30: TypeError: no dictionary",
        "[Rank 1] [LOGGER] pass 1 over loader 1: 4 calls of wandb.log, 1.2 ms in all, 300 µs at most (non-blocking)",
    ]


def test_a_loop_without_a_dataloader_is_counted_by_its_optimizer_steps():
    calls = [Call("http", "POST host:80", LINE, timing(STEPS, 0.1), at=10.0, last=50.0)]
    main = Process("a", 10, 1, "main", calls=calls, optimizer_steps=STEPS, first_step=10.0, last_step=50.0)
    (only,) = found(Evidence(run=Run("x"), recording=[main]))

    assert (only.rule, "take 50 % of the loop: POST host:80 costs" in only.cause) == ("logger-in-hot-loop", True)


@pytest.mark.parametrize("busy", [{"written": 200_000}, {"tasks": [Task(10, cpu=0.9)]}])
def test_a_call_that_sends_or_computes_is_no_call_that_stands(busy):
    calls = [Call("logger", "mlflow.log_artifact", LINE, since=20.0)]
    main = Process("a", 10, 1, "main", loaders=[Loader(1, batches=9, passes=1, now="between passes")], calls=calls)

    def judged(**facts: object) -> list[str]:
        seen = Seen("a", 10, 1, "main", looked=1.0, **facts)  # type: ignore[arg-type]
        return [one.rule for one in found(Evidence(Run("x"), [main], processes=[seen], looked_at=40.0))]

    assert (judged(), judged(**busy)) == (["logger-no-answer"], [])
