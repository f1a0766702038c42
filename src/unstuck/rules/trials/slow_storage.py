"""Loading is I/O-bound: samples wait for the storage, or the way to it.

## It means

A network file system at its busy hours, a disk that is shared by many jobs, many small files with a round trip each, a
pipe or a server that gives no more, or reading in small pieces. The CPU cores are mostly idle while samples are loaded.

## Fix

Hide the wait behind more workers, which all wait at the same time:

```python
loader = DataLoader(dataset, batch_size=32, num_workers=2)  # before
loader = DataLoader(dataset, batch_size=32, num_workers=8)  # after, if memory allows
```

Pack many small files into shards of 100 MB or more, which are read from beginning to end:

```sh
(cd data && ls | head -1000) | tar -cf train-000.tar -C data -T -
```

Keep the data on a local disk, if there is room for all of it. Try it with one file first: if that is not read much
faster from there, the copy is not worth it. A larger shuffle buffer does not help: it reads the same bytes and holds
more of them in memory.

## Check it yourself

Read one file plainly, cold, and from a local disk; use a file that was not read lately:

```sh
df --output=fstype,source,target data/part-0.tar
time head -c 1G data/part-0.tar > /dev/null
cp data/part-0.tar /local/disk/ && sync && time dd if=/local/disk/part-0.tar of=/dev/null bs=4M iflag=direct
```

See what the disks do while the training runs (`%util`, `r_await`): `iostat -x 2`.

## Not this, if

- a sample computes rather than waits: [heavy-transform](heavy-transform.md)
- a read never comes back: [worker-blocked-io](worker-blocked-io.md)
- the page cache is too small for the data: [page-cache-thrash](page-cache-thrash.md)
- a training has run, and no doctor: [dataloader-bound](dataloader-bound.md)

## How sure

It is judged from the benchmark of `unstuck doctor`: the loader as it is against the same loader with its samples in
memory; for a sample loaded by one thread, how much of its time that thread computes, how many bytes it requests, and
what it is blocked in; and the same files read plainly, cold where the page cache can be dropped. It is certain of the
seconds and bytes. It speaks where the loader gets faster with its samples in memory, at least half of what a sample
waits for is reading, it waits 10 ms or more, and less than 100 MiB arrive per second of that. A thread that sleeps
between pieces of what it reads counts as waiting for data from 40 ms and 64 KiB per sample on. With --step-ms it speaks
only if the loader is slower than the training.

## Seen in

- https://github.com/ruotianluo/ImageCaptioning.pytorch/issues/22: many small .npy files over a busy NFS, 2 to 3 s per
  batch
- https://github.com/google-research/meta-dataset/issues/40: a local disk instead of the network was the most effective
  change
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import STORAGE, Differences, Trial, is_reading
from ...wording.printable import quoted
from ...wording.text import duration, many, percent, short, size
from ..rule import Level, rule
from ._rungs import feeds, loader_of, needed

WAIT = 0.01  # seconds per sample: below that, a few workers hide it
RATE = 100 << 20  # bytes per second of waiting: what a single spinning disk gives; more is not slow
KNOWN = 16 << 10  # bytes per sample: less is what the tool itself reads; bytes from a socket are not counted
AS_SLOW = 2.0  # times the loader's rate: if plain reading is not faster than that, the storage is the limit
SOURCES = {"socket": "a network socket", "pipe": "a pipe", "fifo": "a FIFO", "file": "files"}
FAULT = "page fault"


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("trial",),
    level=Level.GENERAL,
    yields_to=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    trial = case.trial
    facts = trial.differences if trial is not None else None
    if trial is None or facts is None or trial.limit != STORAGE or not _is_slow(trial, facts):
        return
    remedy, *alternatives = _options(trial, facts)
    yield case.finding(
        cause=_cause(facts),
        seen=[*trial.limit_seen, *_training(trial, facts), *_plain(facts)],
        remedy=remedy,
        alternatives=alternatives,
        where=facts.where,
        subject=Subject("file", facts.paths[0]) if facts.paths else Subject("loader", loader_of(trial).dataset),
    )


def _is_slow(trial: Trial, facts: Differences) -> bool:
    if facts.step is not None:
        return not feeds(trial, facts.step)
    return facts.waited >= WAIT and facts.asked < RATE * facts.waited


def _rate(facts: Differences) -> float:
    return facts.asked / facts.waited if facts.waited else 0.0


def _cause(facts: Differences) -> str:
    share = percent(facts.waited / facts.seconds) if facts.seconds else "much"
    return (
        f"Loading is I/O-bound: a sample takes {duration(facts.seconds)}, {share} of it waiting for {_source(facts)}."
    )


def _source(facts: Differences) -> str:
    """What most looks found it waiting for."""
    reads = [what for what in facts.waits if is_reading(what)]
    most = max(reads, key=lambda what: facts.waits[what], default="")
    return "the disk" if most == FAULT else SOURCES.get(most.rpartition(" ")[2], "storage")


def _training(trial: Trial, facts: Differences) -> Iterator[str]:
    if facts.step is not None:
        yield needed(trial, facts.step)


def _plain(facts: Differences) -> Iterator[str]:
    if facts.asked >= KNOWN:
        yield f"a sample reads {size(facts.asked)}: {size(_rate(facts))} arrive per second of waiting"
    plain = facts.plain
    if plain is not None and plain.rate is not None:
        how = "cold, from the disk" if plain.cold else "warm, from the page cache"
        yield f"{many(plain.files, 'file')} of these, read plainly: {size(plain.rate)} per second ({how})"
    yield "a larger shuffle buffer would not help: it reads the same bytes"


def _options(trial: Trial, facts: Differences) -> Iterator[Remedy]:
    name = quoted(trial.target.name) if trial.target is not None else ""
    workers = Remedy(
        "Hide the wait behind more workers: they wait at the same time", [f"unstuck tune {name}"] if name else []
    )
    plain = facts.plain
    if not facts.paths:
        yield workers
        yield Remedy("Serve the data from this machine or from one nearer to it")
        return
    look = [f"time head -c 1G {quoted(facts.paths[0])} > /dev/null"]
    if plain is not None and plain.rate is not None and plain.rate > AS_SLOW * max(_rate(facts), 1.0):
        at = f" at {short(facts.where)}" if facts.where is not None else ""
        yield Remedy(
            f"Read in larger pieces{at}, without a round trip for each: read plainly, the files are faster", look
        )
        yield workers
        return
    yield Remedy("Copy one of these files to a local disk, time both, and move the data only if that is faster", look)
    yield workers
    yield Remedy("Pack small files into larger shards, or train when the storage is less busy")
