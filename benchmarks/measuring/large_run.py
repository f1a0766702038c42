"""Run folders of many ranks, every recording written by the recorder of a training, at its full size."""

from __future__ import annotations

import json
import struct

import msgspec

from unstuck.evidence import Exit, Run, Sample
from unstuck.evidence.journal import Begin, End, Gone, Look
from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.format import APART, Kind

HEALTHY, KILLED = "healthy", "worker killed"
SECOND = 1_000_000_000
STARTED = 1_750_000_000
PER_NODE = 8  # ranks
BATCHES, BATCH = 2000, 32
STEP, FETCH = SECOND // 10, SECOND // 5  # of eight workers: they keep up
BEGAN = 110 * SECOND  # monotonic: the recording begins at 100
ENDED = BEGAN + BATCHES * STEP
LINE = {"file": "/code/train.py", "line": 12, "function": "main"}
PLACE = APART.join(("/code/train.py", "12", "main"))
LOST = "[/gloo/transport/tcp/pair.cc:547] Connection closed by peer"
WORKER_DIED = "DataLoader worker (pid {}) is killed by signal: Killed. "


def write_run(folder, ranks, workers, what):
    """The run folder, and the rank that is at fault."""
    recordings = folder / "recordings"
    recordings.mkdir(parents=True)
    fault = ranks // 2 if what == KILLED else None
    for rank in range(ranks):
        node, pid = _place(rank)
        pids = [pid * 100 + worker for worker in range(workers)]
        _main(recordings / f"{node}.1.{pid}.77.rec", rank, ranks, pid, pids, fault)
        for worker, own in enumerate(pids):
            killed = rank == fault and worker == 0
            _worker(recordings / f"{node}.{pid}.{own}.77.rec", (rank, ranks, worker, workers), pid, killed)
    status = 0 if fault is None else 1
    run = Run(
        id=folder.name,
        folder=str(folder),
        command=["torchrun", "train.py"],
        started=STARTED,
        host=_place(0)[0],
        status=status,
        pid=1,
    )
    (folder / "run.json").write_bytes(msgspec.json.encode(run))
    for node in sorted({_place(rank)[0] for rank in range(ranks)}):
        mine = [rank for rank in range(ranks) if _place(rank)[0] == node]
        (folder / f"watch-{node}.jsonl").write_bytes(
            b"\n".join(map(msgspec.json.encode, _watched(node, mine, fault))) + b"\n"
        )
    return folder, fault


def _place(rank):
    """Nodes are containers: the first rank of each has the same pid."""
    return f"node{rank // PER_NODE}", 100 + rank % PER_NODE


def _watched(node, ranks, fault):
    end = (ENDED - 100 * SECOND) / SECOND
    yield Begin(node=node, pid=1, cpus=96, granted="0-95", descriptor_limit=1 << 20, cgroup="/job")
    for at in range(2, int(end), 4):
        yield Look(
            Sample(
                at=float(at),
                available=1 << 38,
                total=1 << 39,
                oom_kills={"machine": 0},
                shm_size=1 << 38,
                shm_free=1 << 37,
            )
        )
    for rank in ranks:
        yield Gone(Exit(pid=_place(rank)[1], status=0 if fault is None else 1, at=end + 1, how="pidfd"))
    yield End(at=end + 2)


def _opened(path, layout, role, pid, parent, rank, world):
    recorder = Recorder(str(path), layout)
    words = recorder.words
    words[f.H_PID], words[f.H_PARENT], words[f.H_STARTED], words[f.H_ROLE] = pid, parent, 77, role
    words[f.H_RANK], words[f.H_LOCAL_RANK], words[f.H_WORLD] = rank + 1, rank % PER_NODE + 1, world
    words[f.H_MONOTONIC], words[f.H_WALL] = 100 * SECOND, STARTED * SECOND
    words[f.H_IMPORTED], words[f.H_ALLOWED] = 101 * SECOND, 96
    words[f.H_COST], words[f.H_COST_COUNT], words[f.H_COST_MAX] = 5_000_000, BATCHES, 9000
    return recorder


def _main(path, rank, world, pid, pids, fault):
    recorder = _opened(path, f.MAIN_LAYOUT, f.ROLE_MAIN, pid, 1, rank, world)
    words, workers = recorder.words, len(pids)
    words[f.H_STEPS], words[f.H_STEP_AT], words[f.H_FIRST_SAMPLE] = BATCHES, ENDED, BEGAN
    words[f.H_MODEL_BEGUN], words[f.H_MODEL_ENDED] = 102 * SECOND, 103 * SECOND
    words[f.H_PARAMETERS], words[f.H_ELEMENTS] = 200, 1 << 30
    loader = {
        "type": "DataLoader",
        "dataset": "train.Images",
        "dataset_inner": "Images",
        "batch_size": BATCH,
        "num_workers": workers,
        "prefetch_factor": 2,
        "sampler": "DistributedSampler",
        "created": LINE,
        "reads_at": LINE,
    }
    recorder.note(Kind.LOADER, 1, 104 * SECOND, 0, recorder.intern(json.dumps(loader)))
    recorder.note(Kind.LENGTH, 1, 104 * SECOND, 0, BATCHES * BATCH * world + 1, BATCHES + 1)
    group = {"where": LINE, "backend": "gloo", "rank": rank, "world": world, "timeout": 1800.0, "variables": {}}
    recorder.note(Kind.GROUP, 1, 103 * SECOND, SECOND, recorder.intern(json.dumps(group)), 1)
    wrapped = {"kind": "ddp", "where": LINE, "parameters": 200, "names": ["weight"]}
    recorder.note(Kind.WRAPPED, 1, 104 * SECOND, 0, recorder.intern(json.dumps(wrapped)))
    recorder.note(Kind.ITERATOR, 1, 105 * SECOND, SECOND, 1, workers, 0)
    recorder.event(Kind.ITERATOR, 1, 105 * SECOND, SECOND, 1, workers, 0)
    for worker, own in enumerate(pids):
        recorder.note(Kind.WORKER, 1, 105 * SECOND, 0, own, worker)
    recorder.note(Kind.OPTIMIZER, 0, BEGAN + STEP, 0, recorder.intern("AdamW"), recorder.intern("cuda:0"))
    waits, bodies = recorder.total_slot(Kind.WAIT, 1), recorder.total_slot(Kind.BODY, 1)
    recorder.total(recorder.total_slot(Kind.FIRST_WAIT, 1), SECOND)
    recorder.totals(waits, [STEP // 100] * (BATCHES - 1))
    recorder.totals(bodies, [STEP - STEP // 100] * (BATCHES - 1))
    starts = [BEGAN + number * STEP for number in range(BATCHES)]
    recorder.events(
        Kind.WAIT, 1, starts, [STEP // 100] * BATCHES, list(range(BATCHES)), [1] * BATCHES, [STEP] * BATCHES
    )
    value = struct.unpack("<q", struct.pack("<d", 0.5))[0]
    loss = recorder.intern("loss")
    recorder.board(recorder.board_slot(Kind.METRIC, loss), Kind.METRIC, loss, ENDED, BATCHES + 1, value)
    if fault is None:
        recorder.event(Kind.PASS_END, 1, ENDED, 0, BATCHES, 1, BATCHES)
        recorder.note(Kind.PASS_END, 1, ENDED, 0, BATCHES, 1, BATCHES)
        words[f.H_ENDED], words[f.H_ENDED_HOW] = ENDED + SECOND, f.ENDED_EXIT
    else:
        doing = Kind.WAIT if rank == fault else Kind.BODY
        recorder.board(recorder.board_slot(Kind.LOADER, 1), doing, 1, ENDED, BATCHES, 1, BATCHES, BATCHES)
        late = SECOND // 10 if rank != fault else 0
        if rank == fault:
            recorder.note(Kind.EXIT, 0, ENDED, 0, pids[0], -9, f.EXIT_PEEKED)
        message = WORKER_DIED.format(pids[0]) if rank == fault else LOST
        failure = {
            "how": "uncaught",
            "type": "RuntimeError",
            "message": message,
            "frames": [LINE],
            "at": ENDED + SECOND // 10 + late,
        }
        recorder.last_words(json.dumps([failure]))
    recorder.publish()


def _worker(path, numbers, parent, killed):
    rank, world, worker, workers = numbers
    pid = int(path.name.split(".")[-3])
    recorder = _opened(path, f.WORKER_LAYOUT, f.ROLE_WORKER, pid, parent, rank, world)
    words = recorder.words
    words[f.H_WORKER], words[f.H_WORKERS] = worker + 1, workers
    words[f.H_FIRST_SAMPLE] = BEGAN - SECOND
    own = range(worker, BATCHES, workers)
    starts = [BEGAN + number * STEP - SECOND // 2 for number in own]
    recorder.events(
        Kind.FETCH,
        0,
        starts,
        [FETCH] * len(own),
        [BATCH] * len(own),
        [STEP // 100] * len(own),
        [number * BATCH for number in own],
    )
    recorder.totals(recorder.total_slot(Kind.FETCH, 0), [FETCH] * len(own))
    recorder.totals(recorder.total_slot(Kind.SAMPLE, 0), [FETCH // BATCH] * len(own) * BATCH)
    recorder.totals(recorder.total_slot(Kind.COLLATE, 0), [STEP // 100] * len(own))
    recorder.totals(recorder.total_slot(Kind.IDLE, 0), [STEP] * len(own))
    doing = Kind.SAMPLE if killed else Kind.IDLE
    recorder.board(recorder.board_slot(Kind.FETCH, 0), doing, 0, ENDED, len(own), len(own) * BATCH, 7)
    if not killed:
        words[f.H_ENDED], words[f.H_ENDED_HOW] = ENDED + SECOND, f.ENDED_LOOP
    recorder.publish()
