"""Load samples one by one, without a DataLoader: how long each takes, how large it is, how much memory it needs.

On request also one batch put together of them, what the dataset object holds, and what one worker costs by itself.
What is known is written down after every step, so that a sample which kills or hangs is known by its index.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from .. import shuffles, worker_cost
from ..loaders import batch_size, is_batched, is_stream, sample_keys, shares_at_once
from ..sizes import holdings_of, sizes_of
from ..storage import OpenedFiles
from ..target import opened
from ..usage import Meter, anonymous, give_back

if TYPE_CHECKING:
    from ..request import Facts

SAMPLES = 8
SECONDS = 10.0  # for all of them; the first is always loaded to its end
FILES = 8  # that are named for each
ENDED = object()
ROOM = 1 << 30  # bytes of samples that are kept to make a batch of: two are kept whatever their size


def run(request: dict[str, Any], facts: Facts) -> None:
    """`samples`: how many; `indices`: which; `seconds`; `batch`, `memory`, `worker`: do that, too.

    `worker`: None if it depends on the loader, which may have none.
    """
    options = request["options"]
    loader = opened(request, facts)
    give_back()
    facts.put(base=anonymous(), samples=[])
    stream = is_stream(loader.dataset)
    buffers = shuffles.opened(loader.dataset) if stream else []
    asked = options.get("worker", 0)
    worker = loader.num_workers if asked is None else asked
    seconds = options.get("seconds", SECONDS)
    if not worker:
        _measure(loader, options, facts, seconds, buffers)
        return
    told = facts.beside("busy")
    once = partial(worker_cost.once, loader, buffers, worker, seconds, told)
    with worker_cost.copied(once) as ask:
        worker_cost.idle(loader, facts, seconds)
        held = _measure(loader, options, facts, seconds, buffers)
        worker_cost.busy(ask, once, told, facts, seconds, held, [one.element for one in buffers])


def _measure(loader: Any, options: dict[str, Any], facts: Facts, seconds: float, buffers: list[Any]) -> int:
    """Samples, a batch of them, and the dataset itself. Bytes of the largest sample."""
    kept = _load(loader, options, facts, time.monotonic() + seconds, buffers)
    if options.get("batch"):
        _batch(loader, kept, facts)
    held = max((sizes_of(one).held for one in kept), default=0)
    kept.clear()
    if options.get("memory"):
        facts.put(doing="measuring the dataset", dataset=holdings_of(loader.dataset).facts())
        facts.put(doing="")
    return held


def _load(loader: Any, options: dict[str, Any], facts: Facts, until: float, buffers: list[Any]) -> list[Any]:
    """Samples that were kept, as large as there is room for."""
    seen: list[dict[str, Any]] = []
    kept: list[Any] = []
    room, files = ROOM, OpenedFiles()
    for index, make in _makers(loader, options):
        facts.put(doing="loading a sample", index=index)
        before, files.listening = len(files.paths), True
        try:
            with Meter() as meter:
                sample = make()
        except Exception:
            facts.put(files=files.since(before)[:FILES])
            raise
        files.listening = False
        if sample is ENDED:
            break
        found = sizes_of(sample)
        seen.append({"index": index, "files": files.since(before)[:FILES], **meter.facts(), **found.facts()})
        room -= found.held
        if room > 0 or len(kept) < 2:
            kept.append(sample)
        del sample
        facts.put(samples=seen, shuffles=[one.facts() for one in buffers])
        if time.monotonic() > until:
            break
    facts.put(doing="", index=None)
    return kept


def _makers(loader: Any, options: dict[str, Any]) -> Iterator[tuple[int | str, Callable[[], Any]]]:
    """A name for each sample, and how it is got. Of a stream, the first of a pass."""
    count, dataset = options.get("samples", SAMPLES), loader.dataset
    if is_stream(dataset):
        stream = chain.from_iterable(_begun(dataset))
        for number in range(count):
            yield number, partial(next, stream, ENDED)
        return
    for key in sample_keys(loader, count, options.get("indices")):
        yield (key if isinstance(key, (int, str)) else repr(key)), partial(operator.getitem, dataset, key)


def _begun(dataset: Any) -> Iterator[Any]:
    """Not before the first sample is asked for: what a pass does at its beginning belongs to that."""
    yield iter(dataset)


def _batch(loader: Any, kept: list[Any], facts: Facts) -> None:
    """One batch of the samples there are, made as a worker makes it; one that the dataset gave, where it does."""
    batched = is_batched(loader)
    size = batch_size(loader) or 1
    samples = kept[: size if batched else 1]
    if not samples:
        return
    facts.put(doing="collating", index=None)
    shares = batched and loader.num_workers > 0 and shares_at_once(loader)
    with Meter() as meter:
        batch = _collated(loader, samples if batched else samples[0], in_worker=loader.num_workers > 0)
    found = sizes_of(batch)
    facts.put(doing="", batch={"samples": len(samples), "shares": shares, **meter.facts(), **found.facts()})


def _collated(loader: Any, samples: Any, *, in_worker: bool) -> Any:
    """As a worker does it: torch's own collate function then writes into shared memory."""
    if not in_worker:
        return loader.collate_fn(samples)
    from torch.utils.data._utils import worker

    before = worker._worker_info
    worker._worker_info = worker.WorkerInfo(id=0, num_workers=1, seed=0, dataset=loader.dataset)
    try:
        return loader.collate_fn(samples)
    except RuntimeError:  # /dev/shm may be too small for it: how large it is can be seen all the same
        worker._worker_info = before
        return loader.collate_fn(samples)
    finally:
        worker._worker_info = before
