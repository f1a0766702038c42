"""A tiny run folder with something of everything in it, written by the recorder itself, and ways to spoil it."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import msgspec

from unstuck.evidence import Exit, Glance, Run, Sample
from unstuck.evidence import Memory as Resident
from unstuck.evidence.journal import Begin, End, Glanced, Gone, Look
from unstuck.evidence.live import Frame
from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.format import APART, Kind

SECOND = 1_000_000_000
STARTED = 1_750_000_000
LAYOUT = f.Layout(board=24, totals=24, ring=128, notes=96, strings=8192, last_words=2048)
LINE = {"file": "train.py", "line": 12, "function": "main"}
PLACE = APART.join(("train.py", "12", "main"))
LOADER = {
    "type": "DataLoader",
    "dataset_inner": "Files",
    "batch_size": 4,
    "num_workers": 2,
    "prefetch_factor": 2,
    "persistent_workers": False,
    "sampler": "RandomSampler",
    "iterable": False,
    "created": LINE,
}
FAILED = {
    "how": "uncaught",
    "type": "ValueError",
    "message": "cannot read",
    "frames": [LINE],
    "causes": [{"type": "OSError", "message": "no such file"}],
    "paths": ["data/7.png"],
    "index": 7,
    "shm": [1 << 30, 1 << 29],
}
# Notes that carry facts, by kind: in which of a record's words the string is, and what it says.
FACTS = {
    Kind.GROUP: ("a", {"where": LINE, "backend": "gloo", "rank": 0, "world": 2, "timeout": 1800.0, "variables": {}}),
    Kind.WRAPPED: ("a", {"kind": "ddp", "where": LINE, "parameters": 4, "names": ["weight"]}),
    Kind.PREPARED: ("a", {"where": LINE, "before": {"batch_size": 4}, "after": {"batch_size": 4}}),
    Kind.SAMPLING: ("b", {"kind": "DistributedSampler", "epoch": 0, "replicas": 2, "rank": 0}),
    Kind.STATE: ("c", {"numbers": {"epoch": 1}, "generators": {"rng": "ab"}}),
    Kind.GRAPH: ("c", {"tensors": 3, "where": LINE}),
    Kind.COMPILED: ("a", {**LINE, "reason": "shapes"}),
    Kind.LOGGER: ("a", {"name": "wandb", "mode": "online", "where": LINE}),
    Kind.FRAMEWORK: ("a", {"name": "Lightning", "where": LINE, "module": "Net", "settings": {"max_epochs": 3}}),
    Kind.BUCKETS: (
        "a",
        {"dataset": "Texts", "files": {"0-64": 10, "64-128": 2}, "count": 2, "batches": 4, "partial": 2},
    ),
    Kind.NOTE: ("a", {"lr": 0.1}),
    Kind.VERSIONS: ("a", {"torch": "2.13.0+cpu", "accelerate": "1.15.0"}),
    Kind.THREADS: ("a", {"variables": {"OMP_NUM_THREADS": "1"}, "threads": 4}),
    Kind.SHARED: ("a", {"seconds": 1.0, "shared": 0.5, "batches": 3, "names": ["conv2d"]}),
    Kind.SAVE_FAILED: ("a", {"failed": "OSError: no space", "errno": 28, "free": 0}),
    Kind.HELD: ("b", {"name": "buffer", "held": 10, "of": "shuffle", "size": 100, "shuffles": True}),
    Kind.SHARD_ERROR: ("a", {"path": "shard-1.tar", "type": "ReadError", "message": "bad", "handler": "warn"}),
    Kind.EARLY: ("b", {"shapes": "[4, 3]", "device": "cpu"}),
}
ANSWER = [
    {
        "sequence": number,
        "operation": "gloo:all_reduce",
        "created": (STARTED + 5) * SECOND,
        "retired": number < 2,
        "group": ["0", "default_pg"],
        "sizes": [[3, 4]],
        "line": LINE,
    }
    for number in range(3)
]
STACKS = (
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call first):\n"
    '  File "train.py", line 12 in main\n'
)


def a_run(folder: Path, ranks: int = 2) -> Path:
    """Ranks with two workers each: the first rank has failed."""
    (folder / "recordings").mkdir(parents=True)
    (folder / "snapshots").mkdir()
    node = os.uname().nodename
    for rank in range(ranks):
        _main(folder / "recordings" / f"{node}.1.{1000 + rank}.77.rec", rank)
        for worker in range(2):
            _worker(folder / "recordings" / f"{node}.1.{1010 + 2 * rank + worker}.77.rec", rank, worker)
    first = folder / "recordings" / f"{node}.1.1000.77"
    first.with_suffix(".77.flight").write_text(json.dumps(ANSWER))
    first.with_suffix(".77.stacks").write_text(STACKS)
    about = Run(
        id=folder.name,
        folder=str(folder),
        command=["python", "train.py"],
        started=STARTED,
        host=node,
        status=1,
        pid=999,
    )
    (folder / "run.json").write_bytes(msgspec.json.encode(about))
    (folder / f"watch-{node}.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, _watched(node))) + b"\n")
    return folder


def _watched(node: str) -> list[msgspec.Struct]:
    looks = [
        Sample(
            at=float(number),
            available=1 << 33,
            total=1 << 34,
            limit=1 << 33,
            used=(1 << 33) - (1 << 26),
            oom_kills={"machine": number // 8},
            shm_size=1 << 30,
            shm_free=1 << 29,
            disk_free=1 << 33,
            processes=[Resident(pid=1000, anonymous=number << 20, threads=4, cpu=float(number), waits="futex")],
        )
        for number in range(10)
    ]
    return [
        Begin(node=node, pid=1000, cpus=2, granted="0-1", descriptor_limit=1024, cgroup="/none"),
        *map(Look, looks),
        Glanced(Glance(at=5.0, pid=1000, doing="waiting for a batch", since=4.0, frames=[Frame("train.py", 12, "f")])),
        Gone(Exit(pid=1010, status=-9, at=8.0, how="pidfd")),
        End(at=9.0),
    ]


def _opened(path: Path, rank: int, role: int) -> Recorder:
    recorder = Recorder(str(path), LAYOUT)
    words = recorder.words
    words[f.H_PID] = int(path.name.split(".")[-3])
    words[f.H_STARTED], words[f.H_PARENT], words[f.H_ROLE] = 77, 999, role
    words[f.H_RANK], words[f.H_LOCAL_RANK], words[f.H_WORLD] = rank + 1, rank + 1, 2
    words[f.H_MONOTONIC], words[f.H_WALL] = 100 * SECOND, STARTED * SECOND
    words[f.H_IMPORTED], words[f.H_ALLOWED] = 101 * SECOND, 2
    words[f.H_COST], words[f.H_COST_COUNT], words[f.H_COST_MAX] = 5000, 10, 900
    return recorder


def _main(path: Path, rank: int) -> None:
    recorder = _opened(path, rank, f.ROLE_MAIN)
    words = recorder.words
    words[f.H_STEPS], words[f.H_STEP_AT], words[f.H_FIRST_SAMPLE] = 20, 107 * SECOND, 102 * SECOND
    words[f.H_MODEL_BEGUN], words[f.H_MODEL_ENDED] = 101 * SECOND, 102 * SECOND
    words[f.H_PARAMETERS], words[f.H_ELEMENTS] = 4, 1000
    words[f.H_FORK_THREADS], words[f.H_FORK_NAMES] = 2, recorder.intern(json.dumps(["MainThread", "pin"]))
    recorder.note(Kind.LOADER, 1, 101 * SECOND, 0, recorder.intern(json.dumps(LOADER)))
    recorder.note(Kind.LENGTH, 1, 101 * SECOND, 0, 41, 11)
    recorder.note(Kind.OPTIMIZER, 0, 103 * SECOND, 0, recorder.intern("SGD"), recorder.intern("cpu"))
    recorder.note(Kind.ITERATOR, 1, 102 * SECOND, SECOND // 10, 1, 2, 0)
    for worker in range(2):
        recorder.note(Kind.WORKER, 1, 102 * SECOND, 0, 1010 + 2 * rank + worker, worker)
    recorder.note(Kind.EXIT, 0, 108 * SECOND, 0, 1010, (1 << 64) - 9 - (1 << 64), f.EXIT_REAPED)
    _facts(recorder)
    call = recorder.intern(APART.join(("logger", "wandb.log", PLACE)))
    span, source = recorder.intern(f"barrier\n{PLACE}"), recorder.intern(f"texts\nload\n2\n{PLACE}")
    stage, save = recorder.intern("decode"), recorder.intern("model.pt")
    for number in range(24):
        at = (102 + number // 4) * SECOND
        recorder.event(Kind.WAIT, 1, at, SECOND * (2 if number == 20 else 0) + 10_000_000, number, 1, 5_000_000)
        recorder.event(Kind.CALL, call, at, 1_000_000)
        recorder.event(Kind.SPAN, span, at, 2_000_000)
    recorder.event(Kind.PASS_END, 1, 107 * SECOND, 0, 10, 1, 20)
    recorder.event(Kind.SAVE, save, 107 * SECOND, SECOND, 5 << f.SAVED_BITS, 1000, recorder.intern(PLACE))
    recorder.note(Kind.SOURCE, source, 103 * SECOND, 0)
    recorder.note(Kind.DATA_FILE, recorder.intern("data/1.parquet\n0\n4"), 103 * SECOND, 1, 3, 100, 5000)
    recorder.note(Kind.SLOWEST, stage, 103 * SECOND, SECOND, recorder.intern("7.png"), 8)
    recorder.note(Kind.PHASE, recorder.intern("train"), 102 * SECOND, 0, 1, 0)
    shards = recorder.intern(
        json.dumps({"library": "webdataset", "name": "s-{0..8}.tar", "total": 8, "of_rank": 4, "mine": 2})
    )
    recorder.note(Kind.SHARDS, shards, 102 * SECOND, 0, 1)
    recorder.note(Kind.SHARD_SHORT, shards, 104 * SECOND, 0, recorder.intern("shard-2.tar"), 3, 10)
    for kind, key in ((Kind.WAIT, 1), (Kind.FIRST_WAIT, 1), (Kind.BODY, 1), (Kind.CALL, call), (Kind.STAGE, stage)):
        slot = recorder.total_slot(kind, key)
        for number in range(20):
            recorder.total(slot, 1_000_000 * (number + 1))
    recorder.board(recorder.board_slot(Kind.LOADER, 1), Kind.WAIT, 1, 107 * SECOND, 10, 1, 10, 20)
    progress = recorder.intern("tokens")
    recorder.board(recorder.board_slot(Kind.PROGRESS, progress), Kind.PROGRESS, progress, 106 * SECOND, 5, 10, stage)
    loss = recorder.intern("loss")
    value = struct.unpack("<q", struct.pack("<d", 0.5))[0]
    recorder.board(recorder.board_slot(Kind.METRIC, loss), Kind.METRIC, loss, 107 * SECOND, 21, value)
    recorder.board_text(recorder.board_slot(Kind.STAGE, stage), Kind.STAGE, stage, 107 * SECOND, "7.png", 1)
    recorder.board(recorder.board_slot(Kind.SKIPPING, 1), Kind.SKIPPING, 1, 103 * SECOND, 2, 5, stage, 4 | 1)
    recorder.board_text(
        recorder.board_slot(Kind.SHARDS, shards), Kind.SHARDS, shards, 107 * SECOND, "s-1.tar", 3, 2, 9, 1
    )
    if rank == 0:
        recorder.last_words(json.dumps([{**FAILED, "at": 108 * SECOND}]))
    recorder.publish()


def _facts(recorder: Recorder) -> None:
    for kind, (where, said) in FACTS.items():
        text = recorder.intern(json.dumps(said))
        recorder.note(kind, 1, 103 * SECOND, 1000, **{"a": 1, "b": 1, where: text})


def _worker(path: Path, rank: int, worker: int) -> None:
    recorder = _opened(path, rank, f.ROLE_WORKER)
    words = recorder.words
    words[f.H_PARENT], words[f.H_WORKER], words[f.H_WORKERS] = 1000 + rank, worker + 1, 2
    words[f.H_FIRST_SAMPLE] = 103 * SECOND
    for number in range(20):
        at = (103 + number // 4) * SECOND
        recorder.event(Kind.FETCH, 1, at, SECOND + 1, 4, 1000, number * 4)
        recorder.event(Kind.SAMPLE, 1, at, SECOND // 2, number * 4, number)
    for kind in (Kind.FETCH, Kind.SAMPLE, Kind.COLLATE, Kind.IDLE, Kind.FETCH_CPU):
        slot = recorder.total_slot(kind, 1)
        for number in range(20):
            recorder.total(slot, 1_000_000 * (number + 1))
    recorder.note(Kind.HANDED, 1, 104 * SECOND, 1, 2, 4096, 4096)
    recorder.note(Kind.DIGESTS, 1, 104 * SECOND, 0, 1, 0, recorder.intern(json.dumps([1, 2, 3])))
    recorder.board(recorder.board_slot(Kind.FETCH, 1), Kind.SAMPLE, 1, 107 * SECOND, 20, 80, 7)
    recorder.last_words(json.dumps([{**FAILED, "how": "fetch", "at": 108 * SECOND}]))
    recorder.publish()
