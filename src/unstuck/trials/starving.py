"""Looks for the cheapest setting with which a training, whose step has a given length, never waits for data."""

from __future__ import annotations

from collections.abc import Generator

from ..evidence.trial import Measured
from .search import Questions, ask, ladder
from .standings import USUAL, Setting, Standings, gap_below

STARVED = 0.02  # share of the loop spent waiting: less is lost in what else happens in a training
NEAR = 0.10  # share of waiting that deeper prefetching may smooth away; more is a lack of workers
RESERVE = 1.1  # times the rate that is needed, at which looking for more workers ends
DEEPER = (4, 8)


def feeds(one: Measured) -> bool:
    return one.starved is not None and one.starved <= STARVED


def feed(seen: Standings, batch: float, step: float) -> Questions:
    """Fewest workers first, then least memory. `batch`: samples in one."""
    needed = batch / step
    yield from ladder(seen, RESERVE * needed)
    yield from _fewer(seen, needed)
    first = _first(seen, needed)
    if first is None:
        yield from _best_there_is(seen, step)
        return
    workers = yield from _enough(seen, first, step)
    if workers is None:
        return
    if workers:
        yield from ask(seen, Setting(workers, 1, step=step))
        yield from _fewer_but_deeper(seen, workers - 1, step)


def _fewer(seen: Standings, needed: float) -> Questions:
    while (below := gap_below(seen.line(), needed)) is not None:
        if (yield from ask(seen, Setting(below, USUAL))) is None:
            return


def _first(seen: Standings, needed: float) -> int | None:
    """The fewest workers that load as fast as the training takes, when nothing keeps them waiting."""
    alone = seen.of(Setting(0))
    if alone is not None and alone.rate * STARVED >= needed:
        return 0
    return next((one.workers for one in seen.line() if one.rate >= needed * (1 - STARVED)), None)


def _enough(seen: Standings, workers: int, step: float) -> Generator[Setting, Measured, int | None]:
    """From there on upwards, with the training's step between: the first that does not starve it."""
    for more in range(workers, workers + 1 + max(workers // 2, 2)):
        if more > seen.bounds.most:
            break
        found = yield from ask(seen, Setting(more, USUAL if more else None, step=step))
        if found is None:
            return None
        if feeds(found):
            return more
    return None


def _fewer_but_deeper(seen: Standings, workers: int, step: float) -> Questions:
    """One that starves only now and then may do with more in reserve."""
    usual = seen.of(Setting(workers, USUAL, step=step))
    if workers < 1:
        return
    if usual is None:
        usual = yield from ask(seen, Setting(workers, USUAL, step=step))
    for depth in DEEPER if usual is not None and (usual.starved or 0.0) < NEAR else ():
        found = yield from ask(seen, Setting(workers, depth, step=step))
        if found is None or feeds(found):
            return


def _best_there_is(seen: Standings, step: float) -> Questions:
    best = seen.best()
    if best is not None:
        yield from ask(seen, Setting(best.workers, best.prefetch, best.in_order, best.context, step))
