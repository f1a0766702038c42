"""What to say about a prediction: settings that would fit, what was assumed, what a larger buffer would cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...evidence.loader import Loader
from ...evidence.trial import IMPOSSIBLE, SAFE, Alternative, Budget, Needs, Shuffle
from ...wording.settings import settings
from ...wording.text import many, size
from ..memory import Room
from .predict import FORKED, MAIN, SMALL, Plan, budget, needs_of, plan_of, shipped

MOST = 3  # alternatives: more are no help
MUCH = 2  # times: a formula that is so far off is mentioned
LARGER = 10  # times: people are often advised to enlarge a buffer so much


def budget_of(facts: dict[str, Any], loader: Loader, room: Room, **wishes: int | None) -> Budget:
    """From what the samples rung has seen, with all that can be said beside it."""
    asked = wishes.get("prefetch")
    return advised(needs_of(facts), plan_of(loader, **wishes), room, loader, asked_prefetch=asked)


def advised(
    needs: Needs, plan: Plan, room: Room, loader: Loader | None = None, *, asked_prefetch: int | None = None
) -> Budget:
    found = budget(needs, plan, room)
    good = found.grade == SAFE and found.shm_grade in ("", SAFE)
    return msgspec.structs.replace(
        found,
        idle_prefetch=asked_prefetch if not plan.workers else None,
        assumed=list(_assumed(needs, plan)),
        notes=list(_notes(needs, plan, found)),
        safer=[] if good else list(_safer(needs, plan, room, loader, found)),
    )


def _safer(needs: Needs, plan: Plan, room: Room, loader: Loader | None, now: Budget) -> Iterator[Alternative]:
    """The least change first; batches are made smaller only where nothing else fits: training depends on them."""
    told: set[str] = set()
    for way in (_buffers, _less_ahead, _fewer_workers, _both, _smaller_batches):
        for changed, other, words in way(needs, plan):
            then = budget(changed, other, room)
            if then.grade == SAFE and then.shm_grade in ("", SAFE):
                told.add(words or _words(plan, other, loader))
                yield _alternative(words or _words(plan, other, loader), then)
                break
        if len(told) >= MOST:
            return
    if not told and now.grade == IMPOSSIBLE:
        least = budget(needs, plan._replace(workers=0), room)
        yield _alternative(settings(loader, num_workers=0), least)


Changes = Iterator[tuple[Needs, Plan, str]]


def _buffers(needs: Needs, plan: Plan) -> Changes:
    """Where a shuffle buffer takes most of it."""
    largest = max(needs.shuffles, key=lambda one: one.elements * (one.element or 0), default=None)
    if largest is None:
        return
    elements = largest.elements
    while elements > 16:
        elements //= 2
        rounded = int(f"{elements:.1g}".partition("e")[0]) if elements < 10 else int(float(f"{elements:.1g}"))
        smaller = [msgspec.structs.replace(one, elements=rounded) if one is largest else one for one in needs.shuffles]
        yield msgspec.structs.replace(needs, shuffles=smaller), plan, f"{_call(largest)}({rounded})"


def _call(shuffle: Shuffle) -> str:
    return ".shuffle" if "shuffle" in shuffle.of else "buffer"


def _less_ahead(needs: Needs, plan: Plan) -> Changes:
    if plan.workers:
        for prefetch in range(plan.prefetch - 1, 0, -1):
            yield needs, plan._replace(prefetch=prefetch), ""


def _fewer_workers(needs: Needs, plan: Plan) -> Changes:
    for workers in _down(plan.workers):
        yield needs, plan._replace(workers=workers), ""


def _both(needs: Needs, plan: Plan) -> Changes:
    if plan.prefetch > 1:
        for workers in _down(plan.workers):
            yield needs, plan._replace(workers=workers, prefetch=1), ""


def _smaller_batches(needs: Needs, plan: Plan) -> Changes:
    if plan.batched:
        for batch in _down(plan.batch):
            yield needs, plan._replace(batch=batch), ""
        for batch in _down(plan.batch):
            for workers in _down(plan.workers):
                yield needs, plan._replace(batch=batch, workers=workers, prefetch=1), ""


def _down(count: int) -> Iterator[int]:
    """Half, and half of that, down to one: 12, 8, 6, 4, 3, 2, 1 below 16."""
    steps = {count * 3 // 4, count // 2}
    while min(steps, default=0) > 1:
        steps |= {min(steps) * 3 // 4, min(steps) // 2}
    return iter(sorted((one for one in steps if 0 < one < count), reverse=True))


def _words(plan: Plan, other: Plan, loader: Loader | None) -> str:
    changed: dict[str, object] = {}
    if other.workers != plan.workers:
        changed["num_workers"] = other.workers
    if other.prefetch != plan.prefetch:
        changed["prefetch_factor"] = other.prefetch
    if other.batch != plan.batch:
        changed["batch_size"] = other.batch
    return settings(loader, **changed)


def _alternative(words: str, then: Budget) -> Alternative:
    return Alternative(words, then.node, then.grade, then.shm, then.shm_grade)


def _assumed(needs: Needs, plan: Plan) -> Iterator[str]:
    if needs.base is None:
        yield f"main process: {size(MAIN)}, as with torch and no model"
    if needs.worker is None and plan.workers:
        yield f"workers: {size(FORKED)} each, as forked ones often take"
    if needs.objects is None and plan.workers:
        yield "dataset copies: none (--dataset-mb N says how much Python objects the dataset holds)"
    yield from (f"{one.of}: no element was seen, so it is not counted" for one in needs.shuffles if one.element is None)
    if plan.pin:
        yield "pinned memory: as torch rounds it with CUDA; without a GPU nothing is pinned"


def _notes(needs: Needs, plan: Plan, found: Budget) -> Iterator[str]:
    for one in needs.shuffles:
        each = one.elements * (one.element or 0) * one.copies * plan.makers * plan.ranks
        if each >= SMALL and one.source is None:
            yield (
                f"{one.of} holds {one.elements:,} elements in each of {many(plan.makers * plan.ranks, 'process')}: "
                f"{size(each)}. {one.elements * LARGER:,} would take {size(each * LARGER)}, and not save one read: "
                "files are read from beginning to end in any case. Shuffling the list of files costs nothing."
            )
    yield from _formula(needs, plan, found)
    if plan.workers and needs.shuffles == [] and not needs.measured:
        yield "no shuffle buffer is counted: --shuffle N --raw-mb M adds N raw samples for every worker"


def _formula(needs: Needs, plan: Plan, found: Budget) -> Iterator[str]:
    """As it is often given, with the memory that a sample takes while it is made: by far too much."""
    peak, handed = max((one.peak for one in needs.samples), default=0), shipped(needs, plan)
    wrong = plan.waiting * plan.batch * peak * plan.ranks
    if plan.batched and wrong > MUCH * found.node and wrong > SMALL << 10:
        yield (
            f"workers × prefetch × batch × size, as it is often given, would say {size(wrong)} with the {size(peak)} "
            f"that a sample takes while it is made. Only what is sent queues up: {size(handed)} each"
        )
