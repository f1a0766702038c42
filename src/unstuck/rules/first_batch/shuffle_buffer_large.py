"""A shuffle buffer is filled again before the first batch of every epoch, which takes much of the run.

## It means

A stream can only be shuffled within a buffer: it reads as many samples as the buffer holds before it yields the first
one. Each worker has its own buffer and fills it alone, and every epoch starts with an empty one. With slow storage or
costly decoding that is a long silence at the beginning of every epoch.

## Fix

Make the buffer smaller, and shuffle the order of files or shards instead, which costs nothing:

```python
dataset = wds.WebDataset(urls, shardshuffle=False).shuffle(10_000, initial=10_000).decode()  # before
dataset = wds.WebDataset(urls, shardshuffle=100).shuffle(1_000).decode()  # after; initial=100 is the default
```
```python
stream = stream.shuffle(seed=42, buffer_size=10_000)  # before, HF datasets
stream = stream.shuffle(seed=42, buffer_size=1_000)  # after; it shuffles the order of shards as well
```

Shuffle before the costly step, so the buffer holds names or encoded bytes:

```python
for path in paths:
    waiting.append(path)  # before: waiting.append(decode(path))
    if len(waiting) >= size:
        yield decode(waiting.pop(random.randrange(len(waiting))))
random.shuffle(waiting)
yield from map(decode, waiting)
```

## Check it yourself

Time the first batch of two epochs against the second batch:

```python
import time

for epoch in range(2):
    began, batches = time.perf_counter(), iter(loader)
    for number in range(2):
        next(batches)
        print(f"epoch {epoch}, batch {number}: {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
```

## Not this, if

- new workers are started for every epoch: [worker-respawn-epoch-gap](worker-respawn-epoch-gap.md)
- only the first epoch starts late: [first-batch-slow](first-batch-slow.md)
- all batches are slow: [dataloader-bound](dataloader-bound.md)
- the loop waits at the end of an epoch for workers to exit: [loader-shutdown-slow-join](loader-shutdown-slow-join.md)

## How sure

It is judged, for each loader over a stream, from how long the first batch of every epoch was waited on compared with
all others, and from how many samples the stream held back in a list at that moment: in the variables of the suspended
generator, or in the buffers of HF datasets and torch's datapipes. It is certain of the seconds and of the number of
samples. It speaks after two epochs or more, when filling took two seconds per epoch, five in all and a fifth of the
run, and later batches come ten times as fast. A buffer that is filled once before a long epoch is as it should be.

## Seen in

- https://github.com/activeloopai/deeplake/issues/1760: 90 s before each epoch; without shuffling they were gone
- https://github.com/webdataset/webdataset/issues/62: `.shuffle(10000)` starts after `initial=100` samples by default
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.loading import fetching, lasted
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, HeldBack, Loader
from ...wording.text import duration, many, percent
from ..rule import rule

PASSES = 2  # filling it once cannot be avoided
EACH = 2.0  # seconds per epoch: less does not matter
LONG = 5.0  # seconds in all
SHARE = 0.2  # of the run, from its first epoch on
FASTER = 0.1  # of the wait for the first batch: else it is not a buffer, but storage that is always slow
FILLING = 0.5  # of the wait, in the first sample of a worker: it comes out of a full buffer


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("worker-respawn-epoch-gap",))
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for loader in main.loaders:
            loads = fetching(case, main, loader) if loader.iterable else []
            buffer = _buffer(loads)
            if buffer is None or not _is_filled_anew(loader, loads):
                continue
            filling = loader.first_waits.total
            ran = max(lasted(main), filling)
            if filling < LONG or filling < SHARE * ran:
                continue
            yield case.finding(
                main,
                cause=f"{percent(filling / ran)} of the run is filling the shuffle buffer again: "
                f"{duration(loader.first_waits.mean)} before each epoch.",
                seen=list(_seen(loader, loads, buffer)),
                remedy=_smaller(loader, buffer),
                alternatives=INSTEAD,
                onset_s=loader.began,
                where=loader.reads_at if is_users(loader.reads_at) else loader.created,
                subject=Subject("loader", loader.name),
            )


def _buffer(loads: list[Fetching]) -> HeldBack | None:
    """The largest that something draws from at random."""
    found = [one for load in loads for one in load.held_back if one.shuffles]
    return max(found, key=lambda one: one.held, default=None)


def _is_filled_anew(loader: Loader, loads: list[Fetching]) -> bool:
    first = loader.first_waits
    longest = max((one.sample_times.longest or one.fetches.longest for one in loads), default=0.0)
    return (
        first.count >= PASSES
        and first.mean >= EACH
        and loader.waits.count > 0
        and loader.waits.mean <= FASTER * first.mean
        and longest >= FILLING * first.mean
    )


def _by(loader: Loader) -> str:
    return " in each worker" if loader.num_workers > 1 else ""


def _seen(loader: Loader, loads: list[Fetching], buffer: HeldBack) -> Iterator[str]:
    yield (
        f"wait for a batch: {duration(loader.first_waits.mean)} for the first of an epoch (average of "
        f"{many(loader.first_waits.count, 'epoch')}), {duration(loader.waits.mean)} for all others"
    )
    whose = f" of {buffer.of}" if buffer.of else ""
    size = f" (size {buffer.size:,})" if buffer.size is not None and buffer.size != buffer.held else ""
    yield f"when the first batch came, `{buffer.name}`{whose}{size} held {buffer.held:,} samples{_by(loader)}"
    given = sum(load.samples for load in loads)
    yield f"{given:,} samples were loaded in all recorded epochs, by {many(len(loads), 'process')}"
    yield f"loader: {loader.name}"


def _smaller(loader: Loader, buffer: HeldBack) -> Remedy:
    rate = buffer.held / loader.first_waits.mean
    enough = max(round(rate), 1)
    return Remedy(
        f"Use a smaller shuffle buffer: it held {buffer.held:,} samples, and {enough:,} are loaded in a second"
    )


INSTEAD = (
    Remedy("Shuffle the order of files or shards at the start of each epoch, so a smaller buffer is enough"),
    Remedy("Shuffle before decoding: keep names or encoded bytes in the buffer"),
)
