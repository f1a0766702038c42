"""A rank got no shard of the WebDataset, so the other ranks wait for it in their first step.

## It means
`nodesplitter=wds.split_by_node` gives rank r of R every R-th shard. With fewer shards than ranks, the last ranks get
none. By default that is an error at the first sample; with `empty_check=False`, or in a pipeline put together by hand,
such a rank skips its empty loop at once, to a barrier or to the end of the script. It is met most often in validation,
which has few shards.

## Fix
Write more and smaller shards, at least ranks times workers, best a multiple of it:

```python
with wds.ShardWriter("data/train-%06d.tar", maxcount=1000) as writer:
    for sample in samples:
        writer.write(sample)
```

Or let every rank draw shards at random; all then have epochs of the same length. `with_epoch(n)` on the dataset counts
in each worker, so an epoch of a rank is n × num_workers; on a `wds.WebLoader` it counts the batches of the rank.

```python
# before
dataset = wds.WebDataset(urls, nodesplitter=wds.split_by_node, empty_check=False)

# after
dataset = wds.WebDataset(urls, resampled=True, nodesplitter=None)
loader = wds.WebLoader(dataset.decode().to_tuple("npy"), batch_size=32, num_workers=4).with_epoch(1000)
```

A small validation set may be read by all ranks (`nodesplitter=None`), or by rank 0 alone, outside of DDP. Keep
`empty_check` on: it turns this hang into an error.

## Check it yourself

```python
from braceexpand import braceexpand  # webdataset installs it

shards = len(list(braceexpand("data/train-{000000..000007}.tar")))
print(shards, "shards for", world_size * max(num_workers, 1), "processes")
```

## Not this, if
- the run ended with "No samples found in dataset": [wds-fewer-shards-than-workers](wds-fewer-shards-than-workers.md)
- every rank has shards, but not equally many samples: [ddp-uneven-batches](ddp-uneven-batches.md)
- the shards of the rank could not be read: [shard-read-errors](shard-read-errors.md)

## How sure
Judged from how webdataset split its shards (how many there are, how many each rank and its workers got), and from what
came of it: a rank whose epoch has not a single batch, while others wait in a collective with the batch that it never
had, or crashed there; or a rank that raised after its own empty loop. Certain where no process of that rank was given a
shard and its epoch ended with no batch while another rank has one. A rank that had shards and lost them to read errors,
or has merely fewer than others, is not reported here.

## Seen in
- https://github.com/webdataset/webdataset/issues/188: DDP hangs with one shard file, and with too many workers
- https://github.com/webdataset/webdataset/issues/68: validation with one shard on 4 GPUs never starts
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.passes import crews
from ...analysis.ranks import listed, told
from ...analysis.shards import WEBDATASET, crew_size, newest, readers
from ...analysis.shares import Apart, uneven
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Shards
from ...evidence.process import Process
from ...wording.text import many, said
from ..rule import Level, rule


class Empty(NamedTuple):
    """A rank without shards, its loader, and what its list is."""

    main: Process
    loader: Loader
    shards: Shards


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.CAUSE,
    outranks=("empty-loader-drop-last", "uneven-file-assignment", "workers-without-shards"),
)
def check(case: Case) -> Iterator[Finding]:
    empty = _empty(case)
    if not empty:
        return
    apart = uneven(case)
    one = next((each for each in empty if apart is not None and each.main.rank == apart.one.rank), None)
    if apart is not None and one is not None and apart.one.loader.number == one.loader.number:
        yield _stuck(case, one, empty, apart)
        return
    fell = next((each for each in empty if _fell(each)), None)
    if fell is not None:
        yield _fallen(case, fell, empty)


def _empty(case: Case) -> list[Empty]:
    """Ranks with a loader that yielded nothing, and of which no process has a shard."""
    found = []
    for main in case.ranks:
        for loader in main.loaders:
            lists = _lists(case, main, loader) if loader.passes and not loader.pass_batches else []
            if lists and all((one.mine == 0 and not one.opened) or _all_left_out(one) for one in lists):
                found.append(Empty(main, loader, max(lists, key=lambda one: one.samples)))
    return found if len({one.main.rank for one in found}) < len(case.ranks) else []


def _all_left_out(one: Shards) -> bool:
    """Samples came out of its shards, to their end, and none of them out of the pipeline."""
    return one.samples > 0 and one.passes > 0


def _lists(case: Case, main: Process, loader: Loader) -> list[Shards]:
    """The lists that its workers read; without workers, the rank itself reads, maybe for other loaders, too."""
    if loader.num_workers:
        crew = next(reversed(crews(case, main, loader)), [])
        return [shards for one in crew if (shards := newest(one)) is not None]
    own = [one for one in main.shards if one.library == WEBDATASET]
    return [one for one in own if one.mine == 0 or _all_left_out(one)][-1:]


def _fell(one: Empty) -> bool:
    """Its own code ended it after the empty loop: a loss that was never computed, a division by no batches."""
    failure = one.main.failure
    return failure is not None and failure.how == "uncaught" and failure.position is None


def _stuck(case: Case, one: Empty, empty: list[Empty], apart: Apart) -> Finding:
    died = all(other.stand.death is not None for other in apart.behind)
    single = len(apart.behind) == 1
    others = f"rank {apart.first.rank}" if single else f"{len(apart.behind)} ranks"
    nothing = _nothing(one, empty)
    cause = f"Deadlock: {nothing}, and {others} {'waits' if single else 'wait'} forever."
    if died:
        cause = f"{nothing[:1].upper()}{nothing[1:]}, and {others} crashed waiting."
    symptom = Symptom.CRASHED if died else Symptom.STUCK
    return _finding(case, one, cause, told(apart.stands), symptom)


def _fallen(case: Case, one: Empty, empty: list[Empty]) -> Finding:
    failure = one.main.failure
    error = failure.type.rpartition(".")[2] if failure is not None else "an error"
    nothing = _nothing(one, empty)
    cause = f"{nothing[:1].upper()}{nothing[1:]}, and raised {error} after its empty loop."
    return _finding(case, one, cause, [said(failure)] if failure is not None else [], Symptom.CRASHED)


def _nothing(one: Empty, empty: list[Empty]) -> str:
    total = "too few" if one.shards.total is None else many(one.shards.total, "shard")
    ranks, _ = crew_size(one.main, one.loader)
    who = listed(each.main.rank or 0 for each in empty)
    if one.shards.samples:
        read = f"{many(one.shards.samples, 'sample')} of {many(one.shards.finished, 'shard')}"
        return f"the pipeline of {who} dropped all {read}"
    return f"{who} got no shard ({total} for {ranks} ranks)"


def _finding(case: Case, one: Empty, cause: str, stands: list[str], symptom: Symptom) -> Finding:
    remedy, *others = _remedies(one)
    return case.finding(
        one.main,
        cause=cause,
        seen=[*stands, *_seen(case, one)],
        remedy=remedy,
        alternatives=others,
        onset_s=next((each.ended for each in one.main.phases if each.loader == one.loader.number), None),
        where=one.shards.where or one.loader.created,
        subject=Subject("loader", one.loader.name),
        symptom=symptom.value,
    )


def _seen(case: Case, one: Empty) -> Iterator[str]:
    each = {main.rank: _of_rank(case, main, one.shards) for main in case.ranks[:8]}
    yield f"shards of each rank: {', '.join(f'rank {rank}: {count}' for rank, count in each.items())}"
    if one.shards.splitter:
        yield f"split by {one.shards.splitter}"
    if not one.shards.empty_check:
        yield "empty_check=False: webdataset raised nothing"


def _of_rank(case: Case, main: Process, shards: Shards) -> int:
    """Of the list that was made at the same line."""
    lists = [each for one in readers(case, main) for each in one.shards if each.where == shards.where]
    known = [each.of_rank for each in lists if each.of_rank is not None]
    return known[-1] if known else sum(each.mine or 0 for each in lists)


def _remedies(one: Empty) -> list[Remedy]:
    ranks, workers = crew_size(one.main, one.loader)
    count = f"n per worker: an epoch is {workers} × n" if workers > 1 else "the same n on every rank"
    draw = Remedy(
        "Let every rank draw shards at random, with epochs of the same length:",
        code=[f"dataset = wds.WebDataset(urls, resampled=True, nodesplitter=None).with_epoch(n)  # {count}"],
    )
    if one.shards.samples:
        return [
            Remedy(
                "Keep the pipeline (select, handlers) from dropping whole shards: mix samples of all kinds into each."
            ),
            draw,
        ]
    crew = f"one for each of the {workers} workers of each rank" if workers > 1 else "one for each rank"
    return [
        Remedy(f"Write the data into {ranks * workers:,} shards, {crew}, or a multiple of that."),
        draw,
        Remedy(
            "For a small validation set, read all of it on every rank:",
            code=["dataset = wds.WebDataset(urls, nodesplitter=None)"],
        ),
    ]
