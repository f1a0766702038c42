"""The way to the first step, and the stages of loading: from evidence to what is told."""

from __future__ import annotations

import io

from unstuck.diagnose import report_on
from unstuck.model.beginning import HeldBack, Model, Step
from unstuck.model.evidence import Evidence, Host, Memory, Run, Sample
from unstuck.model.places import Place
from unstuck.model.recorded import Fetching, Loader, Process
from unstuck.model.sources import Source
from unstuck.model.stage_times import in_words, stage_times
from unstuck.model.timeline import timeline
from unstuck.model.timing import Slowest, Timing
from unstuck.views.terminal import START, console_for, show


def rank(**more: object) -> Process:
    known: dict[str, object] = {"node": "n", "pid": 1, "parent": 0, "role": "main", "started": 0.0, "opened": 0.2}
    return Process(**(known | {"last_sign": 60.0} | more))  # type: ignore[arg-type]


def worker(pid: int, **more: object) -> Process:
    known: dict[str, object] = {"node": "n", "pid": pid, "parent": 1, "role": "worker", "last_sign": 60.0}
    return Process(**(known | more))  # type: ignore[arg-type]


def evidence(*processes: Process, **more: object) -> Evidence:
    return Evidence(run=Run(id="r"), recording=list(processes), **more)  # type: ignore[arg-type]


def told(steps: list[Step]) -> list[tuple[str, float]]:
    return [(one.name, round(one.seconds, 1)) for one in steps]


LOADER = Loader(
    number=1, num_workers=1, pids=[2], made=9.0, began=10.0, first=[4.0], first_at=16.0, first_shapes="float32[4]",
    first_device="cpu", created=Place("/a/train.py", 7, "main"), context="spawn", batches=9,
    starts=Timing(1, 0.1, 0.1),
)  # fmt: skip


def test_each_part_of_the_way_has_its_seconds_and_what_is_in_between_is_own_code() -> None:
    model = Model(at=5.0, ended=8.0, parameters=2, elements=30)
    main = rank(imported=2.0, model=model, loaders=[LOADER], first_step=17.0, optimizer_steps=3, device="cpu")
    spawned = worker(2, started=10.1, imported=12.0, opened=12.5, first_sample=14.0)
    steps = timeline(evidence(main, spawned))
    assert told(steps) == [
        ("interpreter", 0.2),
        ("imports", 1.8),
        ("own code", 3.0),
        ("model", 3.0),
        ("loader", 1.0),
        ("own code", 1.0),
        ("workers", 2.5),
        ("first sample", 1.5),
        ("first batch", 2.0),
        ("first step", 1.0),
    ]
    assert {one.name: one.told for one in steps}["first batch"] == "float32[4] on cpu"
    assert {one.name: one.told for one in steps}["workers"] == "1 worker by spawn; most of it importing"
    assert not any(one.going_on for one in steps)


def test_a_part_that_takes_longer_than_usual_says_so() -> None:
    main = rank(imported=40.0, model=Model(40.0, 70.0, 1, 8), first_step=71.0, optimizer_steps=1)
    found = {one.name: one.told for one in timeline(evidence(main))}
    assert found["imports"] == "import torch; usually at most 15 s"
    assert found["model"] == "8 parameters in 1 tensor; usually at most 10 s"


def test_while_the_first_batch_is_waited_for_it_says_what_moves() -> None:
    # given a rank whose worker still loads, and what the watcher saw of it
    loader = Loader(number=1, num_workers=1, pids=[2], made=3.0, began=3.0, starts=Timing(1, 0.1, 0.1))
    main = rank(imported=2.0, loaders=[loader], alive=True, last_sign=3.1)
    loading = worker(2, started=3.05, opened=3.1, first_sample=8.0, fetching=[Fetching(0, samples=7)])
    seen = Sample(at=29.0, processes=[Memory(1, read=3 << 20, cpu=2.5)])
    known = evidence(main, loading, host=[Host("n", samples=[seen])], looked_at=30.0)
    last = timeline(known)[-1]
    assert (last.name, last.going_on) == ("first batch", True)
    assert last.told == "7 samples loaded so far; 3.0 MiB read; 2.5 s of processor time"


def test_a_run_without_a_loader_says_what_its_sources_gave_before_the_first_step() -> None:
    source = Source(kind="tokens", name="tokenizers", items=500, made=60_000, at=4.0, last=20.0)
    last = timeline(evidence(rank(imported=2.0, alive=True, sources=[source], last_sign=20.0)))[-1]
    assert (last.name, last.going_on) == ("own code", True)
    assert last.told == "500 documents tokenised; 60,000 tokens made"


def test_a_training_without_an_optimizer_is_not_said_to_be_before_its_first_step() -> None:
    steps = timeline(evidence(rank(imported=2.0, loaders=[LOADER], alive=True), worker(2, opened=10.2)))
    assert [one.name for one in steps if one.going_on] == []


def test_the_way_is_shown_while_it_lasts_and_on_request() -> None:
    done = report_on(evidence(rank(imported=2.0, first_step=3.0, optimizer_steps=1)))
    going_on = report_on(evidence(rank(imported=2.0, alive=True)))

    def shown(report, more=()):
        out = io.StringIO()
        show(report, console_for(out), "", more)
        return out.getvalue()

    assert "import torch" not in shown(done)
    assert "1.8 s  imports: import torch" in shown(done, (START,))
    assert "own code, and goes on" in shown(going_on)


def loading(**more: object) -> Process:
    fetching = Fetching(
        0, batches=10, samples=100, fetches=Timing(10, 10.0), sample_times=Timing(100, 9.0, 0.5),
        collates=Timing(10, 1.0), cpu=Timing(2, 0.6),
    )  # fmt: skip
    return worker(2, started=3.0, opened=3.1, fetching=[fetching], **more)


def test_what_no_stage_is_around_is_processing_and_each_stage_has_its_kind() -> None:
    # given decoding that computes, and reading that waits while the worker reads from a disk
    process = loading(
        stages={"read": Timing(100, 5.0, 0.4, 0.04, 0.09), "decode": Timing(100, 1.0)},
        stage_cpu={"read": Timing(12, 0.06), "decode": Timing(12, 0.118)},
        staged=6.0,
        slowest=[Slowest("read", 0.4, item="study_007")],
    )
    seen = Sample(at=9.0, processes=[Memory(2, read=90 << 20, from_disk=80 << 20)])
    main = rank(loaders=[LOADER])
    known = evidence(main, process, host=[Host("n", samples=[seen])])
    found = {one.name: one for one in stage_times(known)}
    assert list(found) == ["read", "process", "decode", "collate"]
    assert {name: (round(one.share, 2), one.kind) for name, one in found.items()} == {
        "read": (0.5, "reading"),
        "process": (0.3, "reading"),
        "decode": (0.1, "computing"),
        "collate": (0.1, "computing"),
    }
    assert (found["read"].p50, found["read"].p95) == (0.04, 0.09)
    assert in_words(known, main, LOADER) == [
        "50 % of loading is the stage read, 50 ms each, reading (10 % on the processor); "
        "the slowest: study_007 with 400 ms"
    ]


def test_a_stage_that_waits_without_reading_is_said_to_wait() -> None:
    process = loading(stages={"fetch": Timing(100, 8.0)}, stage_cpu={"fetch": Timing(12, 0.01)}, staged=8.0)
    seen = Sample(at=9.0, processes=[Memory(2, read=40_000, from_disk=0)])
    known = evidence(rank(loaders=[LOADER]), process, host=[Host("n", samples=[seen])])
    assert stage_times(known)[0].kind == "waiting"


def test_without_a_word_of_stages_the_sample_is_one() -> None:
    known = evidence(rank(loaders=[LOADER]), loading())
    assert [one.name for one in stage_times(known)] == ["sample", "collate"]
    assert in_words(known, known.mains()[0], LOADER) == []


def test_a_buffer_that_is_filled_once_is_nobodys_failure() -> None:
    # given the same waits and the same buffer, in one pass and in three
    held = [HeldBack(number=1, name="waiting", held=900, shuffles=True)]
    fetching = Fetching(
        0, samples=900, fetches=Timing(9, 30.0, 9.0), sample_times=Timing(900, 30.0, 9.0), held_back=held
    )

    def rules(passes: int) -> list[str]:
        loader = Loader(
            number=1, iterable=True, num_workers=1, pids=[2], passes=passes, batches=99, began=1.0,
            first_waits=Timing(passes, 9.0 * passes, 9.0), waits=Timing(90, 0.9, 0.1), bodies=Timing(99, 3.0),
        )  # fmt: skip
        return [
            one.rule for one in report_on(evidence(rank(loaders=[loader]), worker(2, fetching=[fetching]))).findings
        ]

    assert rules(1) == []
    assert rules(3) == ["shuffle-buffer-large"]
