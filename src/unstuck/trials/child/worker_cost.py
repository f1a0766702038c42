"""What one worker costs: by itself, when it stands idle, and at the most, while it makes batches as in training.

Between what is in use the allocator leaves holes, and how large these get depends on what is made in which order, and
on how many batches were handed over. It cannot be calculated: so it is measured, with shuffle buffers no larger than
can be filled at once, by a worker that has its share of a pass as it has in training.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, NamedTuple

from .loaders import batch_size, is_batched, is_stream, rebuilt
from .sizes import sizes_of
from .stand_ins import GivingBack, OneOfSeveral, samples_of
from .usage import Sampler, anonymous, give_back, own

if TYPE_CHECKING:
    from .request import Facts
    from .shuffles import Shuffle

BATCHES = 3
SMALL = 2  # samples of a batch: so little of them is left in the worker
PATIENCE = 6.0  # seconds
ROOM = 1 << 30  # bytes of a batch that is made for that
FILLED = 256 << 20  # and of a shuffle buffer
ENOUGH = 64  # batches, after which the holes are about what they will be, …
NOTED = 128  # … and so many tensors, which torch has noted when it cleans up for the first time
AHEAD = 2  # batches ordered: one is handed over while the next is made, as in training; with 1, it comes to less
ROUNDS = 2  # times that a shuffle buffer is gone through
TRIES = 3  # workers, of which the largest counts: by chance, with a shuffle buffer one took 181, another 278 MiB
ALONE = {"num_workers": 1, "prefetch_factor": 1, "persistent_workers": False, "pin_memory": False}
EVERY = 0.005  # seconds between two looks
FORKED = get_context("fork")
COPY_PATIENCE = 20.0  # seconds: nobody sees progress there, and after 30 a trial counts as stuck
Ask = Callable[..., bool]
Once = Callable[[int, list[int], int], None]


def idle(loader: Any, facts: Facts, seconds: float) -> None:
    """By itself. Before anything was loaded here: a training's main process has not, and its workers import for it."""
    facts.put(doing="loading with one worker", method=method_of(loader))
    size = batch_size(loader) if is_batched(loader) else None
    changes = _batches_of(loader, min(size or 1, SMALL))
    give_back()  # or the worker would be forked with what we have freed, and give it back itself
    before = anonymous()
    told, path = tempfile.mkstemp(prefix="unstuck-settled-")
    changes["collate_fn"] = GivingBack(loader.collate_fn, path)
    with loading(loader, changes, seconds, lambda _: BATCHES) as run:
        _wait(path, run.taken + 1)
        private = own(run.pid)
        copied = max(private - max(anonymous(run.pid) - before, 0), 0) if method_of(loader) == "fork" else 0
        more = max(anonymous() - before, 0)
        found = {"private": private, "copied": copied, "batches": run.taken, "main": more}
    os.close(told)
    os.unlink(path)
    facts.put(worker=found, doing="")


def once(
    loader: Any,
    buffers: list[Shuffle],
    workers: int,
    seconds: float,
    told: Facts,
    held: int,
    elements: list[int],
    needed: int,
) -> None:
    """One of `workers` that share a pass: what it takes above what it was forked with and has `needed` when idle."""
    size = batch_size(loader) if is_batched(loader) else None
    fits = max(min(size or 1, ROOM // max(held, 1)), 1)
    for one, element in zip(buffers, elements, strict=True):
        one.hold(max(FILLED // max(element, 1), 1))
    through = max((ROUNDS * one.held_back for one in buffers), default=0)
    before = needed + (anonymous() if method_of(loader) == "fork" else 0)
    changes = {**_batches_of(loader, fits), **_as_in_training(loader, workers, fits * held)}
    with loading(loader, changes, seconds, _until_cleaned, through) as run:
        grown = [(count, max(most - before, 0)) for count, most in run.marks]
    streams = run.ended and is_stream(loader.dataset)
    whole = workers * (run.samples if is_batched(loader) else run.taken) if streams else None
    held_back = [one.held_back for one in buffers]
    told.put(busy={"grown": grown, "batch": fits, "settles": run.wanted, "in_a_pass": whole, "buffers": held_back})


def busy(ask: Ask, work: Once, told: Facts, facts: Facts, seconds: float, held: int, elements: list[int]) -> None:
    """What one takes on the average: of as many workers as there is time for, each from a fresh process.

    `held`: bytes of one sample; `elements`: of one in each buffer. Where a fresh process cannot do it, the same `work`
    is done here: so what fails is recorded.
    """
    facts.put(doing="loading with one busy worker")
    alone, until, runs = facts.seen("worker"), time.monotonic() + seconds, list[dict[str, Any]]()
    while len(runs) < TRIES:
        began = time.monotonic()
        given = held, elements, alone["private"] - alone["copied"]
        if not ask(*given):
            work(*given)
        runs.append(told.read()["busy"])
        now = time.monotonic()
        if now + (now - began) > until:
            break
    facts.put(doing="", busy=_usual(runs))


@contextmanager
def copied(work: Callable[..., None]) -> Iterator[Ask]:
    """A copy of this process as it was before it loaded anything: as a main process is when its workers start.

    Gives a function that has `work` done by a copy of that copy, and tells if it was done in time. Then it ends.

    What a process has loaded and freed again leaves its allocator with other holes, and workers that are forked with
    these grow less or more. With a shuffle buffer, they came to 229 MiB in a training and from such a copy; to 202, 172
    and 146, one after the other, where their parent had loaded a little; to 310 where it had loaded samples. Nor are
    they recorded: the small things that a recording keeps lie between the user's, and with them the same worker took 72
    to 298 MiB.
    """
    here, there = FORKED.Pipe()
    FORKED.Process(target=_waiting, args=(there, here, work)).start()
    there.close()

    def ask(*words: Any) -> bool:
        if here.closed:
            return False
        here.send(words)
        if here.poll(COPY_PATIENCE):
            return bool(here.recv())
        here.close()
        return False

    try:
        yield ask
    finally:
        here.close()


@contextmanager
def loading(
    loader: Any, changes: dict[str, Any], seconds: float, wanted: Callable[[Any], int], samples: int = 0
) -> Iterator[Run]:
    """One worker of a loader, alone: it loads some batches while its memory is looked at, and then waits.

    `wanted`: how many batches, told by the first of them. `samples`: that it loads at least.
    """
    made = rebuilt(loader, **{**ALONE, **changes})
    others = multiprocessing.active_children()
    batches = iter(made)
    pids = [one.pid for one in multiprocessing.active_children() if one not in others and one.pid]
    yield _loaded(made, batches, pids[0] if pids else 0, seconds, wanted, samples)
    del batches, made


def method_of(loader: Any) -> str:
    """How its workers are started."""
    context = getattr(loader, "multiprocessing_context", None)
    return str(context.get_start_method() if context is not None else multiprocessing.get_start_method())


class Run(NamedTuple):
    """What it has done so far."""

    pid: int
    marks: list[tuple[int, int]]  # after so many batches, the most memory that it had taken
    samples: int
    wanted: int  # batches
    ended: bool  # with its pass

    @property
    def taken(self) -> int:
        return self.marks[-1][0]


def _wait(path: str, batches: int) -> None:
    """Until the worker has made what was ordered, one more than was taken, and has given back what it freed."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and os.path.getsize(path) < batches:
        time.sleep(EVERY)


def _batches_of(loader: Any, size: int) -> dict[str, Any]:
    own_size = is_batched(loader) and type(loader.batch_sampler).__name__ == "BatchSampler"
    return {"batch_size": size} if own_size else {}


def _usual(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Holes differ by chance, the same worker's from 165 to 299 MiB; several workers together have about their mean."""
    furthest = max(runs, key=lambda one: one["grown"][-1][0])
    counts = [count for count, _ in furthest["grown"]]
    seen = {count: [most for one in runs for at, most in one["grown"] if at == count] for count in counts}
    return {**furthest, "grown": [(count, sum(seen[count]) // len(seen[count])) for count in counts]}


def _as_in_training(loader: Any, workers: int, batch: int) -> dict[str, Any]:
    """`batch`: bytes of one, of which some have to lie in /dev/shm."""
    ahead = min(loader.prefetch_factor or AHEAD, AHEAD)
    return {
        "persistent_workers": loader.persistent_workers,
        "prefetch_factor": ahead if (ahead + 1) * batch < _shm_free() else 1,
        "worker_init_fn": OneOfSeveral(workers, loader.worker_init_fn),
    }


def _shm_free() -> int:
    try:
        now = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return now.f_bavail * now.f_frsize


def _until_cleaned(batch: Any) -> int:
    """Batches until torch has dropped what it notes of the tensors that were handed over."""
    from torch.multiprocessing import reductions

    noted = getattr(getattr(reductions, "shared_cache", None), "limit", NOTED)
    return max(noted // max(sizes_of(batch).tensors, 1) + 1, ENOUGH)


def _loaded(made: Any, batches: Any, pid: int, seconds: float, wanted: Callable[[Any], int], samples: int) -> Run:
    sampler, until, marks = Sampler(pid, EVERY), time.monotonic() + seconds, list[tuple[int, int]]()
    taken = loaded = most = 0
    ended = True
    for batch in _all(made, batches):
        taken, loaded, most = taken + 1, loaded + samples_of(batch, made), most or wanted(batch)
        if taken & (taken - 1) == 0:  # 1, 2, 4, 8 …
            marks.append((taken, sampler.largest))
        if (taken >= most and loaded >= samples) or (taken > 1 and time.monotonic() > until):
            ended = False
            break
    marks = [*(one for one in marks if one[0] < taken), (taken, sampler.most())]
    return Run(pid, marks, loaded, most, ended)


def _all(made: Any, batches: Any) -> Iterator[Any]:
    """Of one pass, or of one after the other, where the worker goes on with the next."""
    some = True
    while some:
        some = False
        for batch in batches:
            some = True
            yield batch
        if not made.persistent_workers:
            return
        batches = iter(made)


def _waiting(there: Connection, here: Connection, work: Callable[..., None]) -> None:
    here.close()  # or it would not see that the other side has ended
    _unrecorded()
    try:
        while True:
            there.send(_done(work, there.recv(), there))
    except (EOFError, OSError):
        return


def _done(work: Callable[..., None], words: tuple[Any, ...], asked: Connection) -> bool:
    """By a copy of its own, so that this one stays as it is, whatever becomes of that."""
    here, there = FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=_working, args=(there, work, words))
    process.start()
    there.close()
    try:
        if asked in wait([here, asked]):  # nobody waits for it any more
            os.killpg(process.pid or 0, signal.SIGKILL)
        return bool(here.recv())
    except EOFError:
        return False
    finally:
        process.join()


def _working(there: Connection, work: Callable[..., None], words: tuple[Any, ...]) -> None:
    os.setpgid(0, 0)  # with its workers, it can be ended at once
    try:
        work(*words)
    except Exception:  # noqa: BLE001  (whoever asked does it again, where it is recorded what fails)
        there.send(False)  # noqa: FBT003
    else:
        there.send(True)  # noqa: FBT003


def _unrecorded() -> None:
    inside = sys.modules.get("_unstuck_inside.core.process")
    if inside is not None:
        inside.process.folder = None
