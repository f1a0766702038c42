"""Three settings to choose from, out of those that were measured, each with its reason and the code to paste.

They come with what the usual rule of thumb would have said.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ...evidence.loader import Loader
from ...evidence.trial import Measured, Proposal
from ...wording import settings
from ...wording.text import many, percent
from .search import HALFWAY, NEARLY, feeds
from .standings import LEAST, Standings, beyond, reached, setting_of

CAREFUL, BALANCED, FAST = "careful", "balanced", "fast"
SPARE = 1.2  # times the rate that is needed: what a balanced setting has in reserve
DEBUG_BATCH = 4
PLAIN_SAMPLERS = (None, "RandomSampler", "SequentialSampler", "_InfiniteConstantSampler")
WORTH = 0.02  # seconds to start workers, from which on it is worth keeping them
LEFT_OVER = 4  # processors that it leaves to the main process and the system
PER_GPU = 8
TWICE = 2


class Made(NamedTuple):
    """How the loader is made, for the words of the code."""

    gave: str = ""  # what the target gave
    loader: Loader | None = None
    of_run: Loader | None = None  # of a recorded run: it knows which framework makes it
    gpus: int = 0


def proposals(seen: Standings, made: Made, needed: float | None) -> list[Proposal]:
    chosen = _feeding(seen, needed) if needed is not None else _fast(seen)
    return [
        Proposal(name, full, memory=full.memory, why=why, code=code_of(made, full))
        for name, (one, why) in chosen.items()
        for full in [_completed(one, made)]
    ]


def formula(processors: int, gpus: int) -> tuple[int, str]:
    """Its answer, and how it comes about. Where there is no GPU it is asked for a machine with one."""
    counted = max(gpus, 1)
    found = min(processors - LEFT_OVER, TWICE * counted * PER_GPU)
    one = "" if gpus else " (as with one GPU; there is none here)"
    said = f"min({processors} CPU cores − {LEFT_OVER}, {TWICE} × {counted} × {PER_GPU}) = {found}{one}"  # noqa: RUF001
    return max(found, 0), said if found >= 0 else f"{said}: it has no answer for so few CPU cores"


def code_of(made: Made, one: Measured) -> str:
    """In the words of the library that makes the loader."""
    wanted = settings_of(one)
    if made.of_run is not None and made.of_run.made_by:
        return settings.settings(made.of_run, **wanted)
    return _call(made, wanted, made.loader.batch_size if made.loader is not None else None)


def debug_code(made: Made) -> str:
    """Errors with their whole stack, nothing hidden in another process. Prefetching has no effect in it."""
    batch = made.loader.batch_size if made.loader is not None else None
    return _call(made, {"num_workers": 0}, min(batch, DEBUG_BATCH) if batch else None)


def settings_of(one: Measured) -> dict[str, object]:
    wanted: dict[str, object] = {"num_workers": one.workers}
    if one.workers:
        wanted["prefetch_factor"] = one.prefetch
        wanted |= {"persistent_workers": True} if one.persistent else {}
        wanted |= {"multiprocessing_context": one.context} if one.context else {}
        wanted |= {} if one.in_order else {"in_order": False}
    return wanted | ({"pin_memory": True} if one.pin else {})


def _completed(one: Measured, made: Made) -> Measured:
    """Workers that took a while to start are kept; memory is pinned where there is a GPU to copy it to."""
    return msgspec.structs.replace(one, persistent=bool(one.workers) and one.start >= WORTH, pin=made.gpus > 0)


def _cost(one: Measured) -> tuple[int, bool, int, int]:
    return one.workers, not one.in_order, one.prefetch or 0, one.memory


def _worth_having(seen: Standings) -> list[Measured]:
    """Out of order, a training cannot be repeated exactly: only where it is faster for that."""
    found = seen.all()
    ordered = {one[:2]: at for at in found if (one := setting_of(at)).in_order}
    return [one for one in found if one.in_order or _faster(one, ordered.get(setting_of(one)[:2]))]


def _faster(one: Measured, ordered: Measured | None) -> bool:
    return ordered is None or beyond(one, ordered)


def _fast(seen: Standings) -> dict[str, tuple[Measured, str]]:
    """The fastest gives up nothing; the others give up a little speed for far fewer workers."""
    found = _worth_having(seen)
    if not found:
        return {}
    best = max(found, key=reached)
    return {
        name: (one, _why(one, best, share))
        for name, share in ((CAREFUL, HALFWAY), (BALANCED, NEARLY), (FAST, 1 - LEAST))
        for one in [min((one for one in found if one.rate >= share * best.rate), key=_cost)]
    }


def _why(one: Measured, best: Measured, share: float) -> str:
    if one == best:
        return (
            f"nothing cheaper reaches {percent(share)} of it" if share < NEARLY + LEAST / 2 else "the fastest measured"
        )
    if share > NEARLY:
        return f"as fast as the fastest measured, which is {setting_of(best).words()}"
    return f"{percent(one.rate / best.rate)} of the fastest with {_fewer(one, best)}"


def _fewer(one: Measured, best: Measured) -> str:
    parts = [many(one.workers, "worker") if one.workers else "no workers"]
    if one.workers and one.prefetch != best.prefetch:
        parts.append(f"prefetch {one.prefetch}")
    return f"{' and '.join(parts)} instead of {best.workers}" if one.workers != best.workers else " and ".join(parts)


def _feeding(seen: Standings, needed: float) -> dict[str, tuple[Measured, str]]:
    """With a training to feed, faster than it is of no use: what differs is the reserve."""
    tried = [one for setting in seen.results if setting.step and (one := seen.of(setting)) is not None]
    enough = sorted((one for one in tried if feeds(one)), key=_cost)
    full = seen.all()
    if not full:
        return {}
    best = max(full, key=reached)
    if not enough:
        if tried and best.rate >= needed:
            best = _with_capacity(min(tried, key=lambda one: (one.starved or 0.0, _cost(one))), full)
        waits = f"; it waits {percent(best.starved)} of the time" if best.starved is not None else ""
        why = f"the best measured: {percent(best.rate / needed)} of what the training takes{waits}"
        return dict.fromkeys((CAREFUL, BALANCED, FAST), (best, why))
    cheapest = _with_capacity(enough[0], full)
    reserve = min((one for one in full if one.rate >= SPARE * needed), key=_cost, default=best)
    waits = percent(cheapest.starved or 0.0)
    margin = f", and could load {_times(cheapest.rate / needed)} as fast" if cheapest.rate > needed else ""
    reserve = reserve if _cost(reserve) > _cost(cheapest) else cheapest
    return {
        CAREFUL: (cheapest, f"the cheapest that keeps the training fed: it waits {waits} of the time{margin}"),
        BALANCED: (reserve, f"loads {_times(reserve.rate / needed)} what the training takes: with some reserve"),
        FAST: (best, f"the fastest that was measured: {_times(best.rate / needed)} what the training takes"),
    }


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times"


def _with_capacity(one: Measured, full: list[Measured]) -> Measured:
    """Measured with a step between, its rate is the training's. What it could do is known where it was measured too."""
    same = [at for at in full if (at.workers, at.prefetch) == (one.workers, one.prefetch)]
    near = same or [at for at in full if at.workers == one.workers]
    if not near:
        return one
    return msgspec.structs.replace(one, rate=near[0].rate, noise=near[0].noise, memory=max(one.memory, near[0].memory))


def _call(made: Made, wanted: dict[str, object], batch: int | None) -> str:
    own = _drawn(made.loader, batch)
    said = ", ".join(f"{name}={value!r}" for name, value in (own | wanted).items())
    maker = settings.WEB_LOADER if made.gave == "WebLoader" else "DataLoader"
    inside = "  # in train_dataloader()" if made.gave == "LightningDataModule" else ""
    return f"{maker}(dataset, {_custom(made.loader)}{said}){inside}"


def _drawn(loader: Loader | None, batch: int | None) -> dict[str, object]:
    """How batches are drawn. A batch sampler of somebody's own says all of it, and torch takes nothing beside it."""
    if loader is not None and _draws_batches(loader):
        return {}
    own: dict[str, object] = {"batch_size": batch}
    if loader is not None and loader.shuffle:
        own["shuffle"] = True
    if loader is not None and loader.drop_last:
        own["drop_last"] = True
    return own


def _draws_batches(loader: Loader) -> bool:
    return loader.batch_sampler not in (None, "BatchSampler")


def _custom(loader: Loader | None) -> str:
    """What the loader has of its own has to stay."""
    if loader is None:
        return ""
    parts = []
    if loader.collate_fn not in (None, "default_collate", "default_convert"):
        parts.append("collate_fn=…")
    if not _draws_batches(loader) and loader.sampler not in PLAIN_SAMPLERS:
        parts.append("sampler=…")
    if _draws_batches(loader):
        parts.append("batch_sampler=…")
    return "".join(f"{one}, " for one in parts)
