"""The way to the first step, and the stages of loading: from evidence to what is told."""

from __future__ import annotations

import io

from unstuck.analysis.case import Case
from unstuck.analysis.stages import in_words, stage_times
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Host, Memory, Run, Sample
from unstuck.evidence.basics import Place, Slowest, Timing
from unstuck.evidence.loader import Call, Fetching, HeldBack, Loader, Source
from unstuck.evidence.process import Model, Process, Step
from unstuck.reporting.start import timeline
from unstuck.views.console import console_for
from unstuck.views.terminal import START, show


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
    number=1, num_workers=1, pids=[2], made=9.0, began=10.0, first=[5.9], first_at=16.0, first_shapes="float32[4]",
    first_device="cpu", created=Place("/a/train.py", 7, "main"), context="spawn", batches=9,
    starts=Timing(1, 0.1, 0.1),
)  # fmt: skip


def test_each_part_of_the_way_has_its_seconds_and_what_is_in_between_is_own_code() -> None:
    model = Model(at=5.0, ended=8.0, parameters=2, elements=30)
    main = rank(imported=2.0, model=model, loaders=[LOADER], first_step=17.0, optimizer_steps=3, device="cpu")
    spawned = worker(2, started=10.1, imported=12.0, opened=12.5, first_sample=14.0)
    steps = timeline(Case(evidence(main, spawned)))
    assert told(steps) == [
        ("interpreter", 0.2),
        ("imports", 1.8),
        ("own code", 3.0),
        ("model", 3.0),
        ("own code", 1.0),
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
    found = {one.name: one.told for one in timeline(Case(evidence(main)))}
    assert found["imports"] == "import torch; usually at most 15 s"
    assert found["model"] == "8 parameters in 1 tensor; usually at most 10 s"


def test_while_the_first_batch_is_waited_for_it_says_what_moves() -> None:
    # given a rank whose worker still loads, and what the watcher saw of it
    loader = Loader(number=1, num_workers=1, pids=[2], made=3.0, began=3.0, starts=Timing(1, 0.1, 0.1))
    main = rank(imported=2.0, loaders=[loader], alive=True, last_sign=3.1)
    loading = worker(2, started=3.05, opened=3.1, first_sample=8.0, fetching=[Fetching(0, samples=7)])
    seen = Sample(at=29.0, processes=[Memory(1, read=3 << 20, cpu=2.5)])
    known = evidence(main, loading, host=[Host("n", samples=[seen])], looked_at=30.0)
    last = timeline(Case(known))[-1]
    assert (last.name, last.going_on) == ("first batch", True)
    assert last.told == "7 samples loaded so far; 3.0 MiB read; 2.5 s of CPU time"


def test_a_run_without_a_loader_says_what_its_sources_gave_before_the_first_step() -> None:
    source = Source(kind="tokens", name="tokenizers", items=500, made=60_000, at=4.0, last=20.0)
    last = timeline(Case(evidence(rank(imported=2.0, alive=True, sources=[source], last_sign=20.0))))[-1]
    assert (last.name, last.going_on) == ("own code", True)
    assert last.told == "500 documents tokenised; 60,000 tokens made"


def test_a_training_without_an_optimizer_is_not_said_to_be_before_its_first_step() -> None:
    steps = timeline(Case(evidence(rank(imported=2.0, loaders=[LOADER], alive=True), worker(2, opened=10.2))))
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
    return worker(2, started=3.0, opened=3.1, threads_at_fork=1, fetching=[fetching], **more)


def test_what_no_stage_is_around_is_processing_and_each_stage_has_its_kind() -> None:
    # given decoding that computes, and reading that waits while the worker reads from a disk
    process = loading(
        stages={"read": Timing(100, 5.0, 0.4, 0.04, 0.09), "decode": Timing(100, 1.0)},
        stage_cpu={"read": Timing(12, 0.06), "decode": Timing(12, 0.118)},
        stage_cpu_of={"read": Timing(12, 0.6), "decode": Timing(12, 0.12)},
        stage_read={"read": 5 << 20, "decode": 0},
        stage_fetched={"read": 4 << 20, "decode": 0},
        staged=6.0,
        slowest=[Slowest("read", 0.4, item="study_007")],
    )
    seen = Sample(at=9.0, processes=[Memory(2, read=90 << 20, from_disk=80 << 20)])
    main = rank(loaders=[LOADER])
    known = evidence(main, process, host=[Host("n", samples=[seen])])
    found = {one.name: one for one in stage_times(Case(known))}
    assert list(found) == ["read", "process", "decode", "collate"]
    assert {name: (round(one.share, 2), one.kind) for name, one in found.items()} == {
        "read": (0.5, "reading"),
        "process": (0.3, "reading"),
        "decode": (0.1, "computing"),
        "collate": (0.1, "computing"),
    }
    assert (found["read"].p50, found["read"].p95) == (0.04, 0.09)
    assert in_words(Case(known), main, LOADER) == [
        "50 % of loading is the stage read, 50 ms each, reading (10 % on a CPU core); "
        "the slowest: study_007 with 400 ms"
    ]


def test_a_stage_that_waits_without_reading_is_said_to_wait() -> None:
    process = loading(
        stages={"fetch": Timing(100, 8.0)}, stage_cpu={"fetch": Timing(12, 0.01)}, staged=8.0,
        stage_cpu_of={"fetch": Timing(12, 0.96)}, stage_read={"fetch": 4800}, stage_fetched={"fetch": 0},
    )  # fmt: skip
    seen = Sample(at=9.0, processes=[Memory(2, read=40_000, from_disk=0)])
    known = evidence(rank(loaders=[LOADER]), process, host=[Host("n", samples=[seen])])
    assert stage_times(Case(known))[0].kind == "waiting"


def decoded(cpu: float, of: float, queued: float) -> tuple[str, float | None]:
    """A worker that decodes pictures, which it has read at 10 MiB a second; and how it was served by the kernel."""
    process = loading(
        stages={"decode": Timing(100, 8.0)}, staged=8.0, stage_cpu={"decode": Timing(12, cpu)},
        stage_cpu_of={"decode": Timing(12, of)}, stage_read={"decode": 10 << 20}, stage_fetched={"decode": 0},
    )  # fmt: skip
    seen = Sample(at=9.0, processes=[Memory(2, read=90 << 20, cpu=2.0, main_cpu=2.0, queued=queued)])
    (most, *_) = stage_times(Case(evidence(rank(loaders=[LOADER]), process, host=[Host("n", samples=[seen])])))
    return most.kind, most.processor


def test_a_decode_is_computing_by_the_time_of_the_calls_that_were_measured() -> None:
    # given that these calls were shorter than most: against the mean of all calls it would be 29 %
    assert decoded(cpu=0.28, of=0.3, queued=0.0) == ("computing", 0.933)


def test_a_decode_that_has_no_core_is_not_reading() -> None:
    assert decoded(cpu=0.24, of=0.96, queued=6.0) == ("waiting for a CPU core", 0.25)
    assert decoded(cpu=0.24, of=0.96, queued=0.0) == ("reading", 0.25)


def test_samples_that_sleep_do_not_wait_for_a_core_though_they_have_none_now_and_then() -> None:
    # given samples that compute 6 %, and wait for a core as long as they compute
    fetching = Fetching(
        0, samples=100, fetches=Timing(10, 10.0), sample_times=Timing(100, 10.0), cpu=Timing(2, 0.12),
        cpu_of=Timing(2, 2.0),
    )  # fmt: skip
    process = worker(2, opened=3.1, threads_at_fork=1, fetching=[fetching])
    seen = Sample(at=13.0, processes=[Memory(2, read=4000, cpu=0.6, main_cpu=0.6, queued=0.6)])
    (one,) = stage_times(Case(evidence(rank(loaders=[LOADER]), process, host=[Host("n", samples=[seen])])))
    assert (one.kind, one.processor) == ("waiting", 0.06)


def test_what_a_process_reads_for_its_imports_is_not_read_for_samples() -> None:
    # given a main process that has read 200 MiB before its first pass, loads by itself, and sleeps
    fetching = Fetching(
        1, samples=100, fetches=Timing(10, 10.0), sample_times=Timing(100, 10.0), cpu=Timing(2, 0.4),
        cpu_of=Timing(2, 2.0),
    )  # fmt: skip
    loader = Loader(number=1, batches=9, began=10.0, made=9.0)
    looks = [
        Sample(at=at, processes=[Memory(1, read=200 << 20, cpu=cpu, main_cpu=cpu, queued=0.5 * cpu)])
        for at, cpu in ((10.5, 3.0), (20.5, 5.0))
    ]
    main = rank(loaders=[loader], fetching=[fetching])
    (one,) = stage_times(Case(evidence(main, host=[Host("n", samples=looks)])))
    assert one.kind == "waiting"


WANDB = Call("logger", "wandb.init", Place("/a/train.py", 9, "main"), Timing(1, 5.0, 5.0), at=5.0, last=10.0)


def test_what_comes_before_a_loader_is_made_is_not_the_loaders() -> None:
    loader = Loader(
        number=1, made=12.0, began=20.0, first=[0.2], first_at=20.2, batches=9, starts=Timing(1, 0.01),
        created=Place("/a/train.py", 12, "main"),
    )  # fmt: skip
    main = rank(imported=2.0, loaders=[loader], first_sample=20.1, first_step=21.0, optimizer_steps=3, calls=[WANDB])
    steps = timeline(Case(evidence(main)))
    assert told(steps) == [
        ("interpreter", 0.2),
        ("imports", 1.8),
        ("own code", 3.0),
        ("wandb.init", 5.0),
        ("own code", 2.0),
        ("own code", 8.0),
        ("first sample", 0.1),
        ("first batch", 0.1),
        ("first step", 0.8),
    ]
    assert {one.name: one.told for one in steps}["wandb.init"] == "at train.py:9"
    assert steps[4].told == "until a loader was made at train.py:12"


def test_what_is_done_between_iter_and_next_is_not_the_start_of_workers() -> None:
    # given a rank that makes its iterator, sets up its logger and then asks for a batch, which is ready
    loader = Loader(
        number=1, num_workers=1, pids=[2], made=3.0, began=3.0, first=[0.01], first_at=14.01, batches=9, context="fork",
        starts=Timing(1, 0.1, 0.1),
    )  # fmt: skip
    main = rank(imported=2.9, loaders=[loader], first_step=14.5, optimizer_steps=3, calls=[WANDB])
    forked = worker(2, started=3.05, opened=3.1, first_sample=3.4)
    assert told(timeline(Case(evidence(main, forked)))) == [
        ("interpreter", 0.2),
        ("imports", 2.7),
        ("workers", 0.2),
        ("own code", 1.9),
        ("wandb.init", 5.0),
        ("own code", 4.0),
        ("first batch", 0.0),
        ("first step", 0.5),
    ]


def test_the_imports_of_a_spawned_rank_are_no_code_of_the_users() -> None:
    main = rank(started=3.0, opened=9.0, imported=8.99, first_step=9.5, optimizer_steps=1)
    assert told(timeline(Case(evidence(main)))) == [("imports", 6.0), ("first step", 0.5)]


def test_without_a_word_of_stages_the_sample_is_one() -> None:
    known = evidence(rank(loaders=[LOADER]), loading())
    assert [one.name for one in stage_times(Case(known))] == ["sample", "collate"]
    assert in_words(Case(known), Case(known).mains[0], LOADER) == []


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
