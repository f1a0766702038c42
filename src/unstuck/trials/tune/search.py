"""Finds settings by measuring few of them: a generator of questions that is sent the answers.

`search` looks for the fastest, `feed` for the cheapest with which a training, whose step has a given length, never
waits for data. Nothing here knows what a loader is, so that it can be tried on curves that somebody made up.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ...evidence.trial import Measured
from .standings import MOST, USUAL, Bounds, Setting, Standings, beyond, gap_below, potential, setting_of, tolerance

Questions = Generator[Setting, Measured, None]
GIVE_UP = 2  # rungs without a gain, or that failed, one after the other
FALLEN = 0.85  # of the best: a rung that is that much slower is no chance
LOOKS_BETWEEN = 3  # numbers tried between two rungs
LOOKS_BELOW = 1
NEARLY = 0.95  # of the best rate: what nobody would notice in a training
HALFWAY = 0.75  # of it: what a careful setting may give up for memory
UNEVEN = 0.2  # scatter of loading times from which on it can matter that one slow batch holds up those behind it
AGAIN = 4  # settings measured again, because data came from the disk when they were
DEPTHS = (1, 2, 4, 8)  # of prefetching, in the grid
STARVED = 0.02  # share of the loop spent waiting: less is lost in what else happens in a training
NEAR = 0.10  # share of waiting that deeper prefetching may smooth away; more is a lack of workers
RESERVE = 1.1  # times the rate that is needed, at which looking for more workers ends
DEEPER = (4, 8)


def search(seen: Standings) -> Questions:
    """The fastest, and what is nearly as fast for less."""
    yield from ladder(seen)
    if not seen.line():
        yield from _other_start(seen)
        return
    yield from _between(seen)
    yield from _configured(seen)
    yield from _depth(seen)
    yield from _order(seen)
    yield from _cheaper(seen)
    yield from _cold(seen)
    yield from _twice(seen)


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


def exhaustive(seen: Standings) -> Questions:
    for setting in grid(seen.bounds):
        seen.add(setting, (yield setting))


def grid(bounds: Bounds) -> list[Setting]:
    """All that an exhaustive search would measure: what the search below chooses from."""
    orders = (True, False) if bounds.orders else (True,)
    some = [
        Setting(workers, depth, order) for workers in range(1, bounds.most + 1) for depth in DEPTHS for order in orders
    ]
    return [Setting(0), *some]


def ask(seen: Standings, setting: Setting, *, again: bool = False) -> Generator[Setting, Measured, Measured | None]:
    """Nothing is measured twice, unless it is meant, and nothing that would not fit into memory."""
    if setting in seen and not again:
        return seen.of(setting)
    if not seen.fits(setting):
        return None
    found = yield setting
    seen.add(setting, found)
    return seen.of(setting)


def feeds(one: Measured) -> bool:
    return one.starved is not None and one.starved <= STARVED


def rungs(bounds: Bounds) -> Iterator[int]:
    """1, 2, 4 …, the number of processors among them."""
    workers, processors = 1, int(bounds.processors)
    while workers <= bounds.most:
        yield workers
        workers = processors if workers < processors < 2 * workers else 2 * workers


def ladder(seen: Standings, enough: float | None = None, context: str = "") -> Questions:
    """More workers as long as that helps. `enough`: a rate at which nothing more is asked for."""
    yield from ask(seen, Setting(0))
    fastest: Measured | None = None
    flat = failed = 0
    steps = rungs(seen.bounds)
    workers = next(steps)
    while True:
        setting = Setting(workers, USUAL, context=context)
        if not seen.fits(setting):
            seen.stopped = f"{workers} workers would not fit into memory"
            return
        found = yield from ask(seen, setting)
        if found is None:
            failed += 1
            if failed == GIVE_UP or "memory" in seen.results[setting][-1].failed:
                seen.stopped = f"{setting.words()} failed"
                return
        else:
            failed = 0
            # What is compared with is the last gain: small ones add up.
            gained = fastest is None or beyond(found, fastest)
            flat = 0 if fastest is None or gained else flat + _flat(seen, found, fastest)
            fastest = found if gained or fastest is None else fastest
            if enough is not None and found.rate >= enough:
                seen.stopped = f"{workers} workers are fast enough"
                return
            if flat >= GIVE_UP:
                seen.stopped = f"more than {fastest.workers} workers are not faster"
                return
        # Where every processor computes already, hardly more can help: a small step shows it as well as a large one.
        full = found is not None and seen.full(found)
        workers = workers + max(workers // 2, 1) if full else next((one for one in steps if one > workers), 0)
        if not 0 < workers <= seen.bounds.most:
            seen.stopped = f"{seen.bounds.most} workers were the most that were tried"
            return


def _flat(seen: Standings, found: Measured, fastest: Measured) -> int:
    """One rung without a gain may be chance; not one that is much slower, nor one with nothing left to compute with."""
    return GIVE_UP if found.rate < FALLEN * fastest.rate or seen.full(found) else 1


def _other_start(seen: Standings) -> Questions:
    """Workers failed: perhaps those that are not forked from this process work."""
    seen.stopped = "no number of workers could be measured"
    alone = seen.of(Setting(0))
    if alone is None:
        return
    for context in ("forkserver", "spawn"):
        found = yield from ask(seen, Setting(1, USUAL, context=context))
        if found is not None:
            yield from ask(seen, Setting(2, USUAL, context=context))
            return


def _between(seen: Standings) -> Questions:
    """Numbers that no rung had, where these can be faster."""
    for _ in range(LOOKS_BETWEEN):
        points = seen.line()
        best = max(points, key=lambda one: one.rate)
        gain, workers = potential(points)
        if not workers or gain <= tolerance(best, best):
            break
        if (yield from ask(seen, Setting(workers, USUAL))) is None:
            break
    for _ in range(LOOKS_BELOW):
        points = seen.line()
        below = gap_below(points, NEARLY * max(one.rate for one in points))
        if below is None or (yield from ask(seen, Setting(below, USUAL))) is None:
            break


def _configured(seen: Standings) -> Questions:
    """What the loader has now, to compare with."""
    if seen.bounds.configured is not None:
        yield from ask(seen, seen.bounds.configured)


def _depth(seen: Standings) -> Questions:
    """Deeper, while that helps."""
    best = seen.best()
    if best is None or not best.workers:
        return
    fastest = best
    for depth in (4, 8):
        found = yield from ask(seen, Setting(best.workers, depth, best.in_order))
        if found is None or not beyond(found, fastest):
            break
        fastest = found


def _order(seen: Standings) -> Questions:
    """Out of order, where one slow batch can hold up others: without workers each wait is the loading of a batch."""
    best, alone = seen.best(), seen.of(Setting(0))
    if best is None or best.workers < 2 or not seen.bounds.orders:
        return
    if alone is not None and alone.scatter < UNEVEN:
        return
    found = yield from ask(seen, Setting(best.workers, best.prefetch, in_order=False))
    more = [one.workers for one in seen.line() if one.workers > best.workers]
    if found is not None and beyond(found, best) and more:  # what kept more workers from helping was the order
        yield from ask(seen, Setting(more[0], best.prefetch, in_order=False))


def _cheaper(seen: Standings) -> Questions:
    """A setting that is careful with memory has its own figure."""
    best = seen.best()
    enough = [one for one in seen.line() if best is not None and one.rate >= HALFWAY * best.rate]
    if enough:
        yield from ask(seen, Setting(enough[0].workers, 1))


def _cold(seen: Standings) -> Questions:
    for setting in seen.cold()[:AGAIN]:
        before = seen.results[setting]
        seen.forget(setting)
        if (yield from ask(seen, setting)) is None:
            seen.results[setting] = before


def _twice(seen: Standings) -> Questions:
    """Of several that are equally fast, the one that was lucky comes first. So the first two are measured again."""
    ranked = sorted(seen.all(), key=lambda one: -one.rate)[:2]
    if len(ranked) < 2 or ranked[0].rate > ranked[1].rate * (1 + MOST):
        return
    for one in reversed(ranked):
        yield from ask(seen, setting_of(one), again=True)


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
