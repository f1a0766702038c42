"""The stream has fewer shards than the loader has workers, so some workers never load anything.

## It means
Hugging Face datasets assigns whole shards to each worker: a file, or a piece of the dataset. Where there are fewer
shards than workers, the rest reach the end of their stream at once and wait. With ranks it is the shards of one rank
that count. `interleave_datasets` has only as many as its smallest source; `shuffle()` of datasets 5.0 may report only
one; a single large file is one shard, however large it is.

## Fix
Make at least as many shards as ranks times workers, best a multiple of it:

```python
# before
stream = dataset.to_iterable_dataset(num_shards=2)

# after
stream = dataset.to_iterable_dataset(num_shards=16)
```

```python
stream = load_dataset("parquet", data_files=files, split="train", streaming=True)
stream = stream.reshard()  # by row groups of Parquet; datasets 5 or newer
stream = stream.shuffle(seed=7, max_buffer_input_shards=1)  # datasets 5: keeps the number of shards
```

Or write more and smaller files. Or use as many workers as there are shards: the others only cost memory.

## Check it yourself

```python
print(stream.num_shards, "shards for", world_size * num_workers, "workers")  # n_shards in older versions
```

## Not this, if
- the shards are webdataset's: [wds-fewer-shards-than-workers](wds-fewer-shards-than-workers.md)
- a whole rank has no row group to read: [rank-without-row-groups](rank-without-row-groups.md)
- all workers have shards, of very different sizes: [worker-finished-early](worker-finished-early.md)
- all workers load and it is still too slow: [dataloader-bound](dataloader-bound.md)

## How sure
Judged from how many shards each worker of the newest epoch was given, as the library itself counts them, and from how
much the loop waits for data. Certain of the shards: they are counted in the workers. It speaks where the loop waits for
data 30 % of the time: idle workers of a loader that keeps up do no harm. Before a run, `unstuck check --ranks
--workers` compares the number of parquet, arrow or JSON files with both; whether the loader will wait, and how it
splits the files, is not known then. Where it cannot be known whether a GPU was busy at the same time, the finding is
only possible.

## Seen in
- https://github.com/huggingface/datasets/issues/7999: the warning, and what num_shards is
- https://github.com/huggingface/datasets/issues/8669: shuffle() of datasets 5.0 reports one shard, and workers idle
- https://github.com/hiyouga/LlamaFactory/issues/9590: 16 workers for 2 shards
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.gpu import GPU_BUSY, gpu_use
from ...analysis.loading import ShardlessCrew, computes, fetching, waiting, without_shards
from ...analysis.passes import each_once
from ...analysis.shards import TABLES, TooFew, too_few
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.printable import printable
from ...wording.settings import settings
from ...wording.text import many, percent
from ..rule import rule

TEXTS = ("Too many dataloader workers:", "(max is dataset.num_shards=", "(max is dataset.n_shards=")
INTERLEAVED = "interleave_datasets"
SHOWN = 8  # workers that are named one by one


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording|data",))
def check(case: Case) -> Iterator[Finding]:
    few = too_few(case, TABLES)
    if few is not None:
        yield _ahead(case, few)
    yield from each_once(_judge(case, main, loader) for main in case.mains for loader in main.loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    crew = without_shards(case, main, loader)
    gpu = gpu_use(case, main)
    if crew is None or not waiting(loader).matters or (gpu.busy or 0.0) >= GPU_BUSY:
        return None
    stream = "Each rank" if _is_split(crew) else "The stream"
    idle = "the other is" if len(crew.idle) == 1 else "the others are"
    remedy, *others = _remedies(case, crew)
    return case.finding(
        crew.idle[0],
        cause=f"{stream} has only {many(_shards(crew), 'shard')} for {len(crew.workers)} workers, so {idle} idle.",
        seen=[*_seen(case, crew), *gpu.words],
        remedy=remedy,
        alternatives=others,
        certainty=gpu.certainty,
        onset_s=loader.began,
        where=loader.created,
        subject=Subject("loader", loader.name),
    )


def _shards(crew: ShardlessCrew) -> int:
    return crew.shards.of_rank or len(crew.workers) - len(crew.idle)


def _is_split(crew: ShardlessCrew) -> bool:
    """Every rank has shards of its own."""
    shards = crew.shards
    return (shards.ranks or 1) > 1 and shards.total is not None and shards.total != shards.of_rank


def _seen(case: Case, crew: ShardlessCrew) -> Iterator[str]:
    shards = crew.shards
    yield f"{crew.loader.name}: the loop waits for data {percent(waiting(crew.loader).share)} of the time"
    yield f"shards: {', '.join(f'worker {worker.worker}: {_mine(worker)}' for worker in crew.workers[:SHOWN])}"
    samples = [(worker.worker, sum(each.samples for each in worker.fetching)) for worker in crew.workers[:SHOWN]]
    yield f"samples: {', '.join(f'worker {number}: {count:,}' for number, count in samples)}"
    if _is_split(crew):
        yield f"{many(shards.total or 0, 'shard')} in all, split over {shards.ranks} ranks"
    elif (shards.ranks or 1) > 1 and shards.total is not None:
        yield f"every rank reads one sample in {shards.ranks} of all shards"
    worked = fetching(case, crew.main, crew.loader)
    total, idle = sum(one.fetches.total for one in worked), sum(one.idle.total for one in worked)
    if total:
        yield f"workers with shards load {percent(total / (total + idle))} of their time"
    if INTERLEAVED in crew.shards.steps:
        yield f"{INTERLEAVED} has as many shards as its smallest source"


def _mine(worker: Process) -> str:
    return str(sum(one.mine or 0 for one in worker.shards))


def _remedies(case: Case, crew: ShardlessCrew) -> list[Remedy]:
    shards, workers, ranks = _shards(crew), len(crew.workers), crew.shards.ranks or 1
    fewer = settings(crew.loader, num_workers=shards)
    host = case.host_of(crew.main)
    if host is not None and 0 < host.cpus <= shards * ranks and computes(case, crew.main, crew.loader):
        return [
            Remedy(
                f"Set {fewer}: these already use the {many(host.cpus, 'CPU core')}, and more shards would not help."
            ),
            Remedy("Make the samples cheaper to load, or prepare them before the run."),
        ]
    return [*_more(case, crew, workers * ranks), Remedy(f"Set {fewer}: loads as fast as now, with less memory.")]


def _more(case: Case, crew: ShardlessCrew, wanted: int) -> Iterator[Remedy]:
    """How this source gets more shards."""
    steps = crew.shards.steps
    if INTERLEAVED in steps:
        yield Remedy(f"Give every source of {INTERLEAVED} at least {wanted:,} shards.")
    elif "to_iterable_dataset" in steps:
        code = f"stream = dataset.to_iterable_dataset(num_shards={wanted})"
        yield Remedy("Make one shard for each worker, or a multiple of that:", code=[code])
    elif "generator" in steps:
        code = f'IterableDataset.from_generator(read, gen_kwargs={{"shards": pieces}})  # {wanted:,} pieces or more'
        yield Remedy("Pass the generator a list with one piece for each worker:", code=[code])
    else:
        yield Remedy(f"Split the data into {wanted:,} files or more.")
        rows = Remedy("For Parquet, make shards of row groups", code=["stream = stream.reshard()"])
        yield from case.from_version("datasets", 5, remedy=rows)


def _ahead(case: Case, few: TooFew) -> Finding:
    """Nothing runs yet."""
    count = len(few.files)
    crew = f"{few.ranks} ranks" if few.ranks > 1 and few.workers == 1 else many(few.readers, "worker")
    paths = ", ".join(printable(file.path) for file in few.files[:4])
    return case.finding(
        cause=f"Only {many(count, 'file')} for {crew}: where each reads whole files, the others will be idle.",
        seen=[
            f"{many(count, 'file')}: {paths}{', …' * (count > 4)}",
            f"without a file: {few.idle} of {many(few.readers, 'process')}",
        ],
        remedy=Remedy(f"Split the data into {few.readers:,} files or a multiple of that."),
        alternatives=[Remedy("Use fewer workers: those without a file only cost memory.")],
        subject=Subject("file", few.files[0].path),
        symptom=Symptom.BAD_DATA.value,
    )
