"""The user's own code raised an exception inside a DataLoader worker.

## It means
`__getitem__`, the dataset's iterator or the collate function met something that it does not handle: a damaged or
missing file, an unexpected shape, a missing key. torch carries the exception to the main process, but names neither the
sample nor the file.

## Fix
Look at that sample and that line. If such samples are to be expected, handle them where they are read, and count them.
```python
# before
def __getitem__(self, index):
    return np.frombuffer(self.paths[index].read_bytes(), dtype=np.float32)


# after
def __getitem__(self, index):
    data = self.paths[index].read_bytes()
    if len(data) % 4:
        raise ValueError(f"{self.paths[index]}: {len(data)} bytes are no whole number of float32")
    return np.frombuffer(data, dtype=np.float32)
```
With webdataset, a stage skips single samples by itself, if its handler says so:
```python
dataset = wds.WebDataset(urls).decode("pil", handler=wds.warn_and_continue)
```

## Check it yourself
Load the same index in the main process: it needs no workers, and a debugger works there.
```python
dataset[index]
```
Or the whole loader:
```python
for batch in DataLoader(dataset, batch_size=8, num_workers=0):
    pass
```

## Not this, if
- an image is truncated: [corrupt-image-sample](corrupt-image-sample.md)
- the samples of a batch have different shapes: [collate-unequal-shapes](collate-unequal-shapes.md)
- CUDA is used in the worker: [cuda-in-forked-worker](cuda-in-forked-worker.md)
- `/dev/shm` is full: [shm-exhausted](shm-exhausted.md)
- webdataset cannot split its shards: [wds-fewer-shards-than-workers](wds-fewer-shards-than-workers.md),
  [wds-no-nodesplitter](wds-no-nodesplitter.md)

## How sure
Judged from the exception that a worker wrote down where it happened: type, message, frames, the index that the fetcher
was at, and the files that the innermost frames had open or named; and from the main process, which ended with that
worker's exception. Certain where it happened and what was raised. The file is the one that the exception names, or else
one that the failing frames held, which may be a neighbour.

## Seen in
- https://github.com/aim-uofa/AdelaiDet/issues/525: "Caught RuntimeError in DataLoader worker process 3", raised again
  in the loop of the main process.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, Owner, user_line
from ...analysis.shards import raised_over
from ...analysis.torch_errors import again, late, warned
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import ShardError
from ...evidence.process import Failure, Process
from ...wording.printable import quoted
from ...wording.text import line, many, said, short
from ..rule import Level, rule

TEXTS = (
    "in DataLoader worker process",
    "Original Traceback (most recent call last):",
)

RAISED = ("fetch", "init")
MOST = 20  # words of a cause
FIXED = "and fix the sample or the line"
SKIPPED = Remedy(
    "Return None from the function for such a sample: a `.select()` after it comes too late, because it raises first."
)


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    raised = [(failure, worker) for worker in case.recording or () for failure in _reached_main(case, worker)]
    for failure, worker in sorted(raised, key=lambda one: one[0].at)[:1]:
        owner = case.owner_of(worker.node, worker.pid)
        count = len({other.identity for _, other in raised})
        where = f"{failure.type} in worker {_number(worker)}{_sample(failure)}{_place(failure)}:"
        error, room = raised_over(failure, worker), MOST - len(where.split())
        yield case.finding(
            worker,
            cause=f"{where} {_shortened(failure, room)}",
            seen=[
                *_seen(failure, owner, count, whole=len(_first_line(failure).split()) <= room),
                *_sample_of_shard(error),
            ],
            remedy=_rerun(case, failure) or _of_stage(error) or _remedy(failure, owner),
            alternatives=[] if late(failure) is not None or error is None else [SKIPPED],
            onset_s=failure.at,
            where=user_line(failure),
            subject=_subject(failure),
            certainty=Certainty.LIKELY.value if late(failure) is not None else "",
        )


def _reached_main(case: Case, worker: Process) -> list[Failure]:
    """Exceptions of a worker by which its main process ended, rather than caught them and went on."""
    owner = case.owner_of(worker.node, worker.pid)
    main = owner.main if owner is not None else case.process(worker.node, worker.parent)
    if main is None or main.failure is None or worker.role != "worker":
        return []
    ended_by = [(main.failure.type, main.failure.message), *main.failure.causes]
    return [one for one in worker.failures if one.how in RAISED and any(_is(one, *other) for other in ended_by)]


def _is(failure: Failure, kind: str, message: str) -> bool:
    """torch puts the worker's type and traceback into the message; what it cannot rebuild becomes another type."""
    return f"Caught {failure.type} in DataLoader worker" in message or (failure.type, failure.message) == (
        kind,
        message,
    )


def _number(worker: Process) -> str:
    number = worker.pid if worker.worker is None else worker.worker
    return f"{number}" if worker.rank is None else f"{number} of rank {worker.rank}"


def _place(failure: Failure) -> str:
    """Of an error that CUDA reports late, the line is not the one that failed."""
    place = user_line(failure)
    return f" ({short(place)})" if place is not None and late(failure) is None else ""


def _sample(failure: Failure) -> str:
    if failure.how == "init":
        return " in worker_init_fn"
    if failure.collating:
        return " while collating a batch"
    if failure.index is not None:
        return f", sample {failure.index}"
    if failure.position is not None:
        return f", sample {failure.position + 1:,} of its stream"
    return " while fetching"


def _first_line(failure: Failure) -> str:
    return next(iter(failure.message.strip().splitlines()), "")


def _shortened(failure: Failure, most: int) -> str:
    """The first words of the message: all of it is in the evidence."""
    words = _first_line(failure)[:200].split() or ["no", "message"]
    if len(words) > most:
        return f"{' '.join(words[:most])} …"
    text = " ".join(words)
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _seen(failure: Failure, owner: Owner | None, count: int, *, whole: bool) -> Iterator[str]:
    place = user_line(failure)
    if not whole:  # the message, in the cause
        yield said(failure)
    if place is not None:
        yield f"raised in {place.function}" + (f" ({line(place)})" if late(failure) is not None else "")
    yield from warned(failure)
    if failure.index is not None and not failure.collating:
        yield f"sample {failure.index}, of batch {failure.batch} of this worker"
    elif failure.indices:
        batch = many(len(failure.indices), "sample")
        yield f"batch of {batch}: {', '.join(str(one) for one in failure.indices[:16])}"
    if failure.stage:
        yield f"in the stage {failure.stage}" + (f" of {failure.item}" if failure.item else "")
    yield from (f"file open or named there: {path}" for path in failure.paths[:2])
    if owner is not None:
        yield f"loader: {owner.loader.name}"
    if count > 1:
        yield f"{count} workers raised; this one was first"


def _sample_of_shard(error: ShardError | None) -> list[str]:
    return [] if error is None else [f"in {error.stage} of sample {error.key} of {error.path}"]


def _rerun(case: Case, failure: Failure) -> Remedy | None:
    """A kernel that failed is reported later than it was launched: first its line has to be found."""
    error = late(failure)
    return again(case, error) if error is not None else None


def _of_stage(error: ShardError | None) -> Remedy | None:
    """A stage of webdataset skips single samples by itself, where it is told so."""
    if error is None:
        return None
    stage = "map(f" if error.stage == "map" else f"{error.stage}(..."
    return Remedy(
        f"Replace sample {error.key} if it is damaged; if such samples are to be expected, skip them where they fail",
        [f"tar -tvf {quoted(error.path)} | grep -F {quoted(error.key)}"] if error.path.startswith("/") else [],
        code=[f".{stage}, handler=wds.warn_and_continue)"],
    )


def _subject(failure: Failure) -> Subject | None:
    if failure.item:
        return Subject("file" if "/" in failure.item else "sample", failure.item)
    if failure.paths:
        return Subject("file", failure.paths[0])
    return Subject("sample", str(failure.index)) if failure.index is not None else None


def _remedy(failure: Failure, owner: Owner | None) -> Remedy:
    subject = _subject(failure)
    if failure.how == "init":
        return Remedy("Call worker_init_fn by itself, to see what it needs in every worker", code=["worker_init_fn(0)"])
    if failure.collating:
        return Remedy("Compare the shapes, types and fields of these samples: each loads, but the batch does not.")
    if subject is not None and subject.kind == "file":
        name = subject.name.rpartition("/")[2] or subject.name
        text = f"Replace {name} if it is damaged; if such files are to be expected, handle them where they are read"
        return Remedy(text, [f"ls -l {quoted(subject.name)}"])
    if failure.index is not None and not (owner is not None and owner.loader.iterable):
        return Remedy(f"Load this sample without a DataLoader, to debug {FIXED}", code=[f"dataset[{failure.index!r}]"])
    return Remedy(f"Iterate over the dataset without a DataLoader, to debug {FIXED}", code=["for sample in dataset:"])
