"""The sampler loads the dataset in the main process to choose the order, before the first batch.

## It means

A sampler that sorts by length, fills buckets or balances classes needs to know something about every sample. If it
takes that from `dataset[index]`, every sample is read and decoded just to be thrown away: in one process, without
workers, before the first batch, and again in every epoch if the sampler does so in its `__iter__`.

## Fix

Compute lengths, buckets or labels once, keep them in a file or in the dataset, and let the sampler read those:

```python
class SimilarLengths(Sampler):  # before
    def __iter__(self):
        lengths = [len(self.dataset[i]["audio"]) for i in range(len(self.dataset))]  # decodes every sample
        return iter(numpy.argsort(lengths).tolist())
```
```python
class SimilarLengths(Sampler):  # after
    def __init__(self, path):
        self.lengths = numpy.load(path)

    def __iter__(self):
        return iter(numpy.argsort(self.lengths).tolist())
```

Often they are known without decoding: from file sizes, headers, or a column of a table. With transformers' Trainer and
grouping by length, add a column with the lengths and name it: `TrainingArguments(length_column_name="length")`.

## Check it yourself

Time the sampler alone. A million shuffled indices take about a second:

```python
import time

began = time.perf_counter()
indices = list(loader.batch_sampler)
print(f"{time.perf_counter() - began:.1f} s for {len(indices)} batches")
```

In a running process, `__getitem__` of the dataset is on the main thread's stack, below `_next_index`:

```sh
py-spy dump --pid PID
```

## Not this, if

- the time goes into starting workers: [worker-start-slow](worker-start-slow.md)
- the dataset itself fills an index or a buffer first: [first-batch-slow](first-batch-slow.md)
- there are no workers, and loading samples for the batch takes that long: [dataloader-bound](dataloader-bound.md)
- the dataset is pickled for spawned workers: [spawn-pickle-large-dataset](spawn-pickle-large-dataset.md)

## How sure

It is judged from how long the main process spent in the sampler of each loader; whether a sampler that is not torch's
own holds the dataset; how much of that time there is for each sample that is loaded; and, where the main process was
sampled, whether the dataset's `__getitem__` was on its stack below the sampler. It is certain of the seconds. It speaks
from three seconds and a fifth of the run on, and only if the dataset was seen being read below the sampler, or if the
sampler holds the dataset and takes a fifth of a millisecond or more for each sample: shuffling, sorting or splitting
indices takes a hundredth of that. A scan that is done once, when the sampler is made, is not judged.

## Seen in

- https://github.com/huggingface/transformers/issues/10909: `group_by_length` read every sample in a plain loop before
  the training; since then it can read a length column
- https://github.com/huggingface/transformers/issues/28069: two hours before the first step over an old NFS server, and
  no message during that time
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, is_users
from ...analysis.loading import fetching, lasted
from ...analysis.stacks import LOADER_FILES, is_idle_worker, place
from ...analysis.standstill import main_stack, mains, workers
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Frame, Seen, own_calls
from ...evidence.loader import Loader, LoaderState
from ...evidence.process import Process
from ...wording.text import duration, many, percent, short
from ..rule import rule

LONG = 3.0  # seconds in the sampler: less is not noticed
SHARE = 0.2  # of the run, from its first epoch on
EACH = 200e-6  # seconds for each sample that is loaded: indices alone take a microsecond or two
MIN_SECONDS = 1.0  # seconds of stack samples with it, where nothing is recorded and `--seconds` was given
GOING_ON = (LoaderState.STARTING, LoaderState.WAITING)


class Drawn(NamedTuple):
    """Of one loader."""

    seconds: float
    going_on: bool
    frames: tuple[Frame, Frame] | None  # the sampler's and the dataset's, where they were seen


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording|stacks",),
    outranks=("worker-respawn-epoch-gap", "spawn-pickle-large-dataset", "stuck-in-user-code"),
)
def check(case: Case) -> Iterator[Finding]:
    yield from _recorded(case) if case.recording is not None else _met(case)


def _met(case: Case) -> Iterator[Finding]:
    for one in met(case):
        if one.seconds < (LONG if case.samples is None else MIN_SECONDS):
            continue
        sampler, dataset = one.frames
        where = place(sampler)
        yield case.finding(
            one.main,
            cause="The sampler loads the dataset in the main process to choose the order, and training waits for it.",
            seen=[_calls(sampler, dataset), one.told],
            remedy=_remedy("the sampler"),
            alternatives=[WITHOUT_DECODING],
            where=where,
        )


def _recorded(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for loader in main.loaders:
            drawn = _drawn(case, main, loader)
            if drawn is None:
                continue
            ran = max(lasted(main), drawn.seconds)
            if drawn.seconds < LONG or drawn.seconds < SHARE * ran:
                continue
            if drawn.frames is None and not _takes_too_long(case, main, loader):
                continue
            where = _sampler_line(loader, drawn)
            yield case.finding(
                main,
                cause=_cause(loader, drawn, ran),
                seen=list(_seen(case, main, loader, drawn)),
                remedy=_remedy(_sampler(loader)),
                alternatives=[WITHOUT_DECODING],
                onset_s=loader.began,
                where=where,
                subject=Subject("loader", loader.name),
            )


def _drawn(case: Case, main: Process, loader: Loader) -> Drawn | None:
    """What is written down, and what goes on: the first indices are drawn before a batch can be waited for."""
    frames = reading_frames(case, main, loader)
    live = (
        frames is not None
        and main.alive
        and loader.now in GOING_ON
        and any(one.pid == main.pid for one in case.stacks or ())
    )
    since = max((case.looked_at or main.last_sign) - loader.now_since, 0.0) if live else 0.0
    if not loader.drawing.count and not live:
        return None
    return Drawn(loader.drawing.total + since, live, frames)


def _takes_too_long(case: Case, main: Process, loader: Loader) -> bool:
    samples = sum(one.samples for one in fetching(case, main, loader))
    return loader.sampler_holds and samples > 0 and loader.drawing.total / samples >= EACH


def _sampler_line(loader: Loader, drawn: Drawn) -> Place | None:
    return place(drawn.frames[0]) if drawn.frames is not None else loader.sampler_at or loader.created


def _sampler(loader: Loader) -> str:
    own = [one for one in (loader.batch_sampler, loader.sampler) if one and not one.startswith("torch.utils.data")]
    return own[0].rpartition(".")[2] if own else "the sampler"


def _cause(loader: Loader, drawn: Drawn, ran: float) -> str:
    so_far = " so far" if drawn.going_on else ""
    name = _sampler(loader)
    return (
        f"{name[:1].upper()}{name[1:]} loads the dataset in the main process to choose the order: "
        f"{duration(drawn.seconds)}{so_far}, {percent(drawn.seconds / ran)} of the run."
    )


def _calls(sampler: Frame, dataset: Frame) -> str:
    caller = sampler.function.partition(".<locals>")[0]
    return (
        f"{dataset.function} ({short(place(dataset))}) was called from {caller} ({short(place(sampler))}) "
        "while the sampler chose indices"
    )


def _seen(case: Case, main: Process, loader: Loader, drawn: Drawn) -> Iterator[str]:
    if drawn.frames is not None:
        yield _calls(*drawn.frames)
    drawing = loader.drawing
    if drawing.count:
        yield (
            f"choosing indices took {duration(drawing.total)} for {many(drawing.count, 'batch')} in "
            f"{many(loader.passes, 'epoch')}, {duration(drawing.longest)} for one of them; no training during that"
        )
    samples = sum(one.samples for one in fetching(case, main, loader))
    if samples and drawing.count:
        yield f"that is {duration(drawing.total / samples)} for each of the {samples:,} samples that were loaded"
    if loader.first:
        came = (loader.first_at or 0.0) - (loader.began or 0.0)
        yield f"the first batch came {duration(came)} after the first epoch began"
    yield f"loader: {loader.name}"


def _remedy(name: str) -> Remedy:
    return Remedy(
        f"Compute what {name} needs (lengths, buckets, labels) once, save it, and let it read that file",
        code=['lengths = numpy.load("lengths.npy")'],
    )


WITHOUT_DECODING = Remedy("Take lengths from file sizes, headers or a table column, without decoding samples")


DRAWS = ("_next_index", "_reset", "_try_put_index")  # of torch's iterators: what they call is the sampler
MIN_SHARE = 0.3  # of the samples of a main thread
READS = ("__getitem__", "__getitems__")


class Met(NamedTuple):
    """A main process that was found in its sampler, without a recording."""

    main: Seen
    frames: tuple[Frame, Frame]  # the sampler's, the dataset's
    seconds: float  # for which its workers have waited for an index, or of stack samples in the sampler
    told: str


def met(case: Case) -> Iterator[Met]:
    """Both times, while its workers had nothing to do since they started; or in many stack samples."""
    for main, stack in mains(case):
        now, then = between(stack.calls), between(own_calls(stack.before))
        idle = [one for one in workers(case, main) if _is_idle(case, one)]
        if now is not None and then is not None and idle and len(idle) == len(workers(case, main)):
            age = min(one.age for one in idle)
            yield Met(main, now, age, f"its workers were started {duration(age)} ago and wait for indices")
            continue
        mine = [one for one in case.samples or () if one.pid == one.tid == main.pid]
        found = [(one, pair) for one in mine if (pair := between(one.frames)) is not None]
        seconds, looked = sum(one.seconds for one, _ in found), sum(one.seconds for one in mine)
        if found and seconds >= MIN_SHARE * looked:
            told = f"the sampler was reading the dataset in {duration(seconds)} of {duration(looked)} of stack samples"
            yield Met(main, found[0][1], seconds, told)


def _is_idle(case: Case, worker: Seen) -> bool:
    stack = main_stack(case, worker.pid)
    return stack is not None and is_idle_worker(stack.calls)


def reading_frames(case: Case, main: Process, loader: Loader) -> tuple[Frame, Frame] | None:
    """The sampler's line and the dataset's, from a live stack or one that the watcher recorded."""
    for frames in _stacks(case, main):
        found = between(frames, loader)
        if found is not None:
            return found
    return None


def _stacks(case: Case, main: Process) -> list[list[Frame]]:
    """Innermost first."""
    live = [one.calls for one in case.stacks or () if one.pid == main.pid]
    host = case.host_of(main)
    return live + [one.frames for one in (host.glances if host else ()) if one.pid == main.pid]


def between(frames: list[Frame], loader: Loader | None = None) -> tuple[Frame, Frame] | None:
    draws = next((at for at, one in enumerate(frames) if one.name in DRAWS and _in_loader(one)), None)
    if draws is None:
        return None
    inner = [one for one in frames[:draws] if not one.native]
    reads = next((at for at, one in enumerate(inner) if one.name in READS and _of_dataset(one, loader)), None)
    if reads is None:
        return None
    sampler = next((one for one in inner[reads + 1 :] if is_users(Place(one.file, one.line, one.function))), None)
    return None if sampler is None else (sampler, inner[reads])


def _in_loader(frame: Frame) -> bool:
    return any(part in frame.file for part in LOADER_FILES)


def _of_dataset(frame: Frame, loader: Loader | None) -> bool:
    """A list has a `__getitem__`, too, but none that is seen; a dataset of a library is one of the user's choice."""
    return loader is None or loader.reads_at is None or frame.file == loader.reads_at.file
