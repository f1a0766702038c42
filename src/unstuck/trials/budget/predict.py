"""Memory of a loader before it runs: each part a multiplication of its own, for one rank, then for the node.

Batches that are sent and queued are one thing, what a worker needs while it makes a batch is another. The formula that
multiplies workers × prefetch × batch with what a sample takes while it is made comes out many times too high.

A busy worker grows: with every batch it sends it takes a little more, until torch cleans up. torch keeps a record of
every tensor that a worker sends, and drops the records only when there are more than 128 of them. Each holds some bytes
of the tensor in place, and free memory around them cannot be joined: so the worker takes new memory. Pictures in
batches of 32, two tensors each: 21 MiB after one batch, 57 after 32, 99 after 64, 105 after 256; with the records
dropped at once, 28 MiB whatever the number. A worker that ends with its epoch has grown by the batches of that epoch
only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ...evidence.loader import Loader
from ...evidence.trial import IMPOSSIBLE, SAFE, TIGHT, Budget, Loaded, Needs, Shuffle, Term
from ...wording.text import many, size
from ..memory import Room

# Of what may be used: a fifth because the prediction may be so much off (benchmarks/budget.py), a tenth for what is no
# loader: the model's own copy in memory, a checkpoint being written, validation.
COMFORTABLE = 0.7
PREFETCH = 2  # torch's default
SMALL = 1 << 20  # bytes: a term below that is not worth a line
FORKED = 30 << 20  # bytes that a forked worker takes by itself, where nobody has measured it: pages it writes to
SPAWNED = 250 << 20  # and one that starts anew: it imports torch again
MAIN = 500 << 20  # of a main process with torch, without the model
EARLY = 8  # batches: before them a worker grows for other reasons, too, and nothing is concluded from that


class Plan(NamedTuple):
    """Settings of a loader that memory depends on."""

    workers: int
    batch: int
    prefetch: int = PREFETCH  # as asked; it counts only with workers
    ranks: int = 1
    pin: bool = False
    batched: bool = True  # the DataLoader puts samples together; else the dataset gives whole batches

    @property
    def waiting(self) -> int:
        """Batches that are ordered ahead. Without workers there are none: each is made when it is asked for."""
        return self.workers * self.prefetch

    @property
    def makers(self) -> int:
        """Processes that load."""
        return max(self.workers, 1)


def budget(needs: Needs, plan: Plan, room: Room) -> Budget:
    terms = [one for one in _terms(needs, plan) if one.size >= SMALL or one.name in ("waiting", "main process")]
    rank = sum(one.size for one in terms)
    shm = sum(one.size for one in terms if one.shm) * plan.ranks
    return Budget(
        workers=plan.workers,
        batch=plan.batch,
        prefetch=plan.prefetch if plan.workers else 0,
        ranks=plan.ranks,
        terms=terms,
        rank=rank,
        node=rank * plan.ranks,
        memory=room.memory,
        memory_of=room.memory_of,
        grade=grade(rank * plan.ranks, room.memory),
        shm=shm,
        shm_size=room.shm_size,
        shm_free=room.shm_free,
        shm_of=room.shm_of,
        shm_grade=grade(shm, room.shm_free) if shm and room.shm_free is not None else "",
        formula=plan.waiting * plan.batch * shipped(needs, plan),
    )


def grade(needed: int, there: int) -> str:
    if needed > there:
        return IMPOSSIBLE
    return TIGHT if needed > COMFORTABLE * there else SAFE


def shipped(needs: Needs, plan: Plan) -> int:
    """Bytes of one sample on its way to the training: of a batch, its part."""
    return _per_sample(needs, plan, "shm") + _per_sample(needs, plan, "pickled")


def needs_of(facts: dict[str, Any]) -> Needs:
    """What the samples rung has written down."""
    batch, busy = facts.get("batch"), facts.get("busy") or {}
    worker, dataset = facts.get("worker") or {}, facts.get("dataset") or {}
    return Needs(
        samples=msgspec.convert(facts.get("samples") or [], list[Loaded]),
        batch=msgspec.convert(batch, Loaded) if batch else None,
        batch_of=batch["samples"] if batch else 1,
        shares=batch["shares"] if batch else True,
        base=facts.get("base"),
        main=worker.get("main", 0),
        worker=worker.get("private") or None,
        copied=worker.get("copied", 0),
        objects=dataset.get("objects"),
        arrays=dataset.get("arrays", 0),
        largest=dataset.get("largest", ""),
        shuffles=msgspec.convert(facts.get("shuffles") or [], list[Shuffle]),
        method=facts.get("method", ""),
        grown=msgspec.convert(busy.get("grown") or [], list[tuple[int, int]]),
        grown_batch=busy.get("batch", 1),
        grown_buffers=busy.get("buffers", []),
        settles=busy.get("settles", 0),
        in_a_pass=_in_a_pass(facts.get("loader") or {}, busy),
        lasting=bool((facts.get("loader") or {}).get("persistent_workers")),
    )


def _in_a_pass(loader: dict[str, Any], busy: dict[str, Any]) -> int | None:
    """Samples; whole batches, where the dataset gives these. A stream tells by its end, where one worker came to it."""
    if loader.get("length") is not None and not loader.get("iterable"):
        whole = loader.get("batch_sampler") is None
        return int(loader["length"]) * (1 if whole else loader.get("batch_size") or 1)
    return busy.get("in_a_pass")


def plan_of(loader: Loader, **wishes: int | None) -> Plan:
    """A loader as it is configured, with what was asked for instead."""
    own = {
        "workers": loader.num_workers,
        "batch": (loader.batch_size or 1) if loader.batch_sampler is not None else 1,
        "prefetch": loader.prefetch_factor or PREFETCH,
    }
    asked = {name: value for name, value in wishes.items() if value is not None}
    whole = {"pin": loader.pin_memory, "batched": loader.batch_sampler is not None}
    return Plan(**{**own, **whole, **asked})  # type: ignore[arg-type]


def _terms(needs: Needs, plan: Plan) -> Iterator[Term]:
    given = needs.measured
    if plan.workers:
        yield from _waiting(needs, plan)
    else:
        whole = _batch_memory(needs, plan)
        yield Term("in use", whole, "one batch in the training loop, until the next arrives", given)
    made = [*_made(needs, plan), *(_buffer(one, plan) for one in needs.shuffles if one.element)]
    yield from made
    yield from _allocator(needs, plan)
    if plan.workers:
        yield from _copies(needs, plan)
        own, told = _worker(needs)
        yield Term("workers", plan.workers * own, f"{many(plan.workers, 'worker')} × {size(own)} each by itself", told)
    base = (needs.base if needs.base is not None else MAIN) + needs.main
    yield Term(
        "main process", base, "Python, torch and the dataset; without the model", given and needs.base is not None
    )


def _waiting(needs: Needs, plan: Plan) -> Iterator[Term]:
    """In /dev/shm lie the tensors; arrays, strings and numbers wait in the memory of whoever made them."""
    ahead = f"{many(plan.workers, 'worker')} × prefetch {plan.prefetch} × {_batch_of(plan)}"
    tensors, others = _per_sample(needs, plan, "shm"), _per_sample(needs, plan, "pickled")
    told = needs.measured
    yield Term("waiting", plan.waiting * plan.batch * tensors, f"{ahead}{size(tensors)}", told, shm=True)
    yield Term("in use", plan.batch * tensors, f"{_batch_of(plan)}{size(tensors)} in the training loop", told, shm=True)
    yield Term(
        "waiting, no tensors", (plan.waiting + 1) * plan.batch * others, f"{ahead}{size(others)}, plus one", told
    )
    if plan.pin:
        whole = plan.batch * tensors
        pinned = 1 << max(whole - 1, 1).bit_length()  # torch takes pinned memory in powers of two, and keeps it
        rest = (plan.waiting + 1) * (pinned - whole) + whole
        yield Term("pinned", rest, f"{plan.waiting + 1} pinned batches, rounded up, and one copy", measured=False)


def _batch_of(plan: Plan) -> str:
    return f"batch of {plan.batch} × " if plan.batched else "a whole batch of "


def _made(needs: Needs, plan: Plan) -> Iterator[Term]:
    """A worker has all samples of a batch and, where its collate function is not torch's own, the batch as well."""
    who = many(plan.workers, "worker") if plan.workers else "the main process"
    held = _mean(needs.samples, "held")
    again = 0 if plan.batched and needs.shares and plan.workers else _batch_memory(needs, plan)
    samples = plan.batch * held if plan.batched else 0
    how = f"{who} × {_batch_of(plan)}{size(held)}" if plan.batched else f"{who} × {_batch_of(plan)}{size(again)}"
    how += f" and the batch of {size(again)}" if plan.batched and again else ""
    yield Term("being made", plan.makers * (samples + again), how, needs.measured)
    extra = _extra(needs, _finished(needs, plan))
    yield Term("decoding", plan.makers * extra, f"{who} × {size(extra)} more while one is made", needs.measured)


def _batch_memory(needs: Needs, plan: Plan) -> int:
    if needs.batch is None:
        return plan.batch * _mean(needs.samples, "held")
    return int(needs.batch.held * (plan.batch / needs.batch_of if plan.batched else 1))


def _finished(needs: Needs, plan: Plan) -> int:
    """Memory of a worker's finished batch. It is counted as waiting, but is not there yet while samples are made."""
    if not plan.workers:
        return 0
    return plan.batch * _per_sample(needs, plan, "shm")


def _extra(needs: Needs, finished: int) -> int:
    """Above what stays, at the worse of two moments: a sample is being made, or a batch is put together.

    The first sample brings along what is only loaded once.
    """
    later = needs.samples[1:] or needs.samples
    making = max((one.peak - one.held for one in later), default=0) - finished
    together = needs.batch.peak - needs.batch.held if needs.batch is not None else 0
    return max(making, together, 0)


def _buffer(one: Shuffle, plan: Plan) -> Term:
    each = one.elements * (one.element or 0) * one.copies
    told = f"{many(plan.makers, 'worker')} × {one.elements:,} × {size(one.element or 0)}"
    told += f" × {one.copies} copies" if one.copies > 1 else ""
    if one.source is not None and one.source < each * plan.makers:
        return Term("shuffle buffer", one.source, f"{told} in {one.of}, but there are only {size(one.source)} to read")
    return Term("shuffle buffer", each * plan.makers, f"{told} in {one.of}", one.looked > 0)


def _allocator(needs: Needs, plan: Plan) -> Iterator[Term]:
    """What the allocator cannot reuse between things that come and go, as one busy worker showed it.

    It does not grow with the batch, but with the number of batches.
    """
    if not needs.grown:
        return
    then = plan._replace(workers=1, ranks=1, batch=needs.grown_batch if plan.batched else 1)
    filled = [replace(one, elements=count) for one, count in zip(needs.shuffles, needs.grown_buffers, strict=False)]
    parts = [*_made(needs, then), *(_buffer(one, then) for one in filled if one.element)]
    held = sum(one.size for one in parts if one.name != "decoding") + _extra(needs, 0)
    batches = batches_of_one(needs, plan.workers, plan.batch)
    beyond = max(grown_after(needs, batches) - held, 0)
    who, seen = many(plan.workers, "worker") if plan.workers else "the main process", needs.grown[-1][0]
    how = f"{who} × {size(beyond)} more than a busy one holds, after {many(batches, 'batch')}"
    how += f" ({seen} were tried)" if seen < batches else ""
    yield Term("allocator", plan.makers * beyond, how, needs.measured)


def batches_of_one(needs: Needs, workers: int, batch: int) -> int:
    """Batches after which one of so many workers takes no more: it has ended with its pass, or torch has cleaned up."""
    if not workers:
        return EARLY  # nothing is sent
    most = needs.settles or max((count for count, _ in needs.grown), default=0)
    if needs.lasting or not needs.in_a_pass:
        return most
    return min(-(-needs.in_a_pass // (batch * workers)), most)


def grown_after(needs: Needs, batches: int) -> int:
    """Most that a worker has taken by then, where few were seen continued as it went."""
    marks = [(0, 0), *needs.grown]
    below = max(one for one in marks if one[0] <= batches)
    above = min((one for one in marks if one[0] > batches), default=None)
    if above is not None:
        return _on_the_way(below, above, batches) if below[0] else above[1]
    half = max((one for one in marks if 2 * one[0] <= below[0]), default=below)
    if below[0] < EARLY or not half[0]:
        return below[1]
    return _on_the_way(half, below, batches)


def _on_the_way(first: tuple[int, int], second: tuple[int, int], batches: int) -> int:
    return first[1] + (second[1] - first[1]) * (batches - first[0]) // max(second[0] - first[0], 1)


def _copies(needs: Needs, plan: Plan) -> Iterator[Term]:
    objects = needs.objects or 0
    if needs.method in ("spawn", "forkserver"):
        whole = objects + needs.arrays
        how = f"{many(plan.workers, 'worker')} × {size(whole)}: each gets the whole dataset object"
    else:
        whole, held = objects, f" in {needs.largest!r}" if needs.largest else ""
        how = f"{many(plan.workers, 'worker')} × {size(whole)} of Python objects{held}, copied by reading"
    yield Term("dataset copies", plan.workers * whole, how, needs.measured and needs.objects is not None)


def _worker(needs: Needs) -> tuple[int, bool]:
    anew = needs.method in ("spawn", "forkserver")
    if needs.worker is None:
        return (SPAWNED if anew else FORKED), False
    objects = needs.objects or 0  # these have a term of their own
    theirs = objects + needs.arrays if anew else int(needs.copied * min(objects / max(needs.base or 1, 1), 1))
    return max(needs.worker - theirs, 0), True


def _per_sample(needs: Needs, plan: Plan, field: str) -> int:
    """Of the batch that was made, the part of one sample; of a whole batch that the dataset gave, all."""
    if needs.batch is not None:
        return int(getattr(needs.batch, field) / (needs.batch_of if plan.batched else 1))
    return _mean(needs.samples, field)


def _mean(samples: list[Loaded], field: str) -> int:
    return int(sum(getattr(one, field) for one in samples) / len(samples)) if samples else 0
