"""All workers are started anew for every pass over a loader, and starting them takes long.

## What it looks at
For each loader that was gone through three times or more: how long making its iterator and waiting for its first batch
took each time, whether the workers had new pids each time, and how long a batch takes to load once they run. What
workers that stay would save is counted: all passes but the first, without the time that loading the first batch takes
anyway.

## Why it happens
Without `persistent_workers=True` a DataLoader ends its workers at the end of each pass and starts new ones at the
beginning of the next. Whatever a worker does first is done again: starting the process, `worker_init_fn`, imports,
opening files, reading an index, filling its queue. The same happens when the loader itself is made anew every epoch.

## What to do
Make the loader once, before the loop over epochs, with `persistent_workers=True`. Its workers then keep their copy of
the dataset: what is changed in the main process between epochs (`dataset.set_epoch(n)`) no longer reaches them, and
has to go through shared memory or through the sampler. The memory of the workers stays taken between passes.

## How sure it is
Certain of the times and pids. Of an iterable dataset only what is not spent in its own code is counted, because a
stream that is begun anew fills its buffers again whoever reads it. It speaks from half a second a pass and 15 % of the
run on, without the time in which the run was ready and other programs had the CPU cores.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_loading, fair_making, fair_run, fair_start
from ...analysis.loading import fetching, lasted
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, Loader
from ...evidence.process import Process
from ...wording.settings import once, settings
from ...wording.text import duration, many, percent
from ..rule import rule

PASSES = 3  # the first has to be paid for anyhow, and one alone may be a coincidence
LONG = 0.5  # seconds a pass: what is shorter nobody notices
SHARE = 0.15  # of the run: below that, another setting is not worth its memory


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for loader in main.loaders:
            if not _respawned(loader):
                continue
            loads = fetching(case, main, loader)
            each, ran = _saved(loader, loads), lasted(main)
            saved = each * (loader.starts.count - 1)
            if not _matters(case, main, loader, loads, ran):
                continue
            yield case.finding(
                main,
                cause=f"{percent(saved / ran)} of the run goes into starting the same workers again: "
                f"{loader.name} starts {_workers(loader)} anew for every pass, which takes "
                f"{duration(each)} each time.",
                seen=list(_seen(loader, loads, saved, ran)),
                remedy=_remedy(loader),
                where=loader.created,
                subject=Subject("loader", loader.name),
            )


def _respawned(loader: Loader) -> bool:
    """Other processes each time; of very many passes only the newest workers are known."""
    passes, started = loader.starts.count, len(set(loader.pids))
    anew = started >= min(passes * loader.num_workers, 128)
    return loader.num_workers > 0 and passes >= PASSES and loader.batches > 1.2 * passes and anew


def _matters(case: Case, main: Process, loader: Loader, loads: list[Fetching], ran: float) -> bool:
    """Without the time in which other programs had the CPU cores: that is not lost by starting workers again."""
    starts, firsts = _started(loader)
    starts, firsts = fair_making(case, main, loader, starts), fair_start(case, main, loader, firsts)
    each = starts + firsts - fair_loading(case, main, loader, _loading(loader, loads))
    return each >= LONG and each * (loader.starts.count - 1) >= SHARE * fair_run(case, main, loader, ran)


def _saved(loader: Loader, loads: list[Fetching]) -> float:
    """Seconds a pass."""
    return sum(_started(loader)) - _loading(loader, loads)


def _started(loader: Loader) -> tuple[float, float]:
    """Seconds a pass, of making its iterator and of its first batch.

    The longest is taken for the first pass, which workers that stay need as well.
    """
    later = max(loader.starts.count - 1, 1)
    starts = (loader.starts.total - loader.starts.longest) / later
    return starts, (loader.first_waits.total - loader.first_waits.longest) / later


def _loading(loader: Loader, loads: list[Fetching]) -> float:
    """What the first batch of a pass takes anyway, while the workers are there."""
    if loader.iterable:
        return max((one.fetches.longest for one in loads), default=0.0)
    count = sum(one.fetches.count for one in loads)
    return sum(one.fetches.total for one in loads) / count if count else 0.0


def _workers(loader: Loader) -> str:
    return "its only worker" if loader.num_workers == 1 else f"its {loader.num_workers} workers"


def _seen(loader: Loader, loads: list[Fetching], saved: float, ran: float) -> Iterator[str]:
    passes = loader.starts.count
    yield (
        f"starting the workers took {duration(loader.starts.mean)} a pass, and the first batch was waited for "
        f"{duration(loader.first_waits.mean)}; all others {duration(loader.waits.mean)} on average"
    )
    yield f"loading a batch takes {duration(_loading(loader, loads))} in a worker that runs"
    yield f"{many(passes, 'pass')} had {many(len(set(loader.pids)), 'different worker')}"
    yield f"all passes but the first: {duration(saved)} of {duration(ran)}"


def _remedy(loader: Loader) -> Remedy:
    way = once(loader)
    if loader.persistent_workers:
        return Remedy(
            f"{way[0].upper()}{way[1:]}: it has persistent_workers=True, but workers stay only as long as their loader "
            "does."
        )
    init = f" What {loader.worker_init_fn} does is then done once." if loader.worker_init_fn else ""
    return Remedy(
        f"Pass {settings(loader, persistent_workers=True)}, and {way}.{init} Workers that "
        "stay do not see what is changed in the dataset between epochs: if there is a set_epoch, make sure that it "
        "reaches them."
    )
