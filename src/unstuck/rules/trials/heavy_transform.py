"""Loading is CPU-bound: making one sample takes so much CPU time that no setting makes it fast.

## It means

One function has most of the work. Common reasons: plain Python where a library would work on the whole array, decoding
far more than is used, augmentation at full size before the crop, a library that was built without its fast path, or the
same preparation again in every epoch.

## Fix

Work on whole arrays:

```python
def normalised(image):  # before: a Python loop over every pixel
    return numpy.array([[(p - mean) / std for p in row] for row in image])
```
```python
def normalised(image):  # after: 100 times as fast
    return (image - mean) / std
```

Crop before you augment, and decode at the size you need:

```python
image = Image.open(path)
image.draft("RGB", (512, 512))  # a JPEG is decoded smaller, which takes a fraction of the time
```

What is not random, do once beforehand and store the result. What is alike for all samples of a batch, do on the GPU:

```python
for images, labels in loader:
    images = augment(images.to("cuda", non_blocking=True))
```

More workers help only as long as there are free CPU cores.

## Check it yourself

Profile twenty samples in one process:

```sh
python -m cProfile -s cumulative load_samples.py | head -40
```
```python
from train import dataset  # load_samples.py

for index in range(20):
    dataset[index]
```

## Not this, if

- it waits for storage rather than computes: [slow-storage](slow-storage.md)
- too few workers for the CPU cores there are: [dataloader-bound](dataloader-bound.md)
- workers hinder each other: [cpu-oversubscription](cpu-oversubscription.md), [too-many-workers](too-many-workers.md)
- samples are in memory and only collated one by one: [per-sample-fetch-in-memory](per-sample-fetch-in-memory.md)

## How sure

It is judged from the benchmark of `unstuck doctor`: the loader as it is against the same loader with its samples in
memory; for a sample loaded by one thread, the CPU time it takes and the function that most of it is spent in; its size,
and the number of CPU cores. It is certain of the seconds. Without --step-ms it is not known how fast is fast enough: it
speaks where loading is computing for 70 % or more, one function has half of it, and a sample takes 20 ms of CPU time or
more, and 40 ns or more for each of its bytes. Decoding a JPEG takes 5 to 20 ns per byte, numpy on whole arrays 1 to 10,
plain Python 50 and more. With --step-ms it speaks exactly where the loader is slower than the training.

## Seen in

- https://github.com/Lightning-AI/pytorch-lightning/issues/1216: elastic transforms of whole volumes took 2 s per image
- https://github.com/MIC-DKFZ/nnUNet/issues/3063: augmentation on the GPU, on whole batches, halved the iteration time
- https://github.com/uoip/SSD-variants/issues/8: a transform in the dataset, ten times as slow as before, starved the
  GPUs
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import COMPUTING, WORKERS, Differences, Measured, Trial
from ...wording.printable import quoted
from ...wording.text import duration, many, percent, short, size
from ..rule import Level, rule
from ._rungs import as_it_is, feeds, needed, sample_size

HEAVY = 0.02  # seconds of CPU time for a sample: decoding and augmenting a photograph takes 5 to 15 ms
DENSE = 40e-9  # seconds per byte: a large volume may take long although it is made as fast as possible
A_BYTE_COUNTS = 1024  # bytes of a sample: of a label alone, seconds per byte say nothing
DOMINATES = 0.5  # of loading in one function: else there is no single place to begin at


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
    if trial is None or facts is None or trial.limit not in (COMPUTING, WORKERS) or not _is_heavy(trial, facts):
        return
    own = as_it_is(trial.measured)
    remedy, *alternatives = _options(trial, facts, own)
    yield case.finding(
        cause=_cause(facts),
        seen=[*trial.limit_seen, *_seen(trial, facts, own)],
        remedy=remedy,
        alternatives=alternatives,
        where=facts.where,
        subject=Subject("stage", facts.function or "sample"),
    )


def _is_heavy(trial: Trial, facts: Differences) -> bool:
    if facts.step is not None:
        return not feeds(trial, facts.step)
    dense = facts.cpu >= DENSE * max(sample_size(trial), facts.asked)
    return facts.cpu >= HEAVY and dense and facts.share >= DOMINATES


def _cause(facts: Differences) -> str:
    at = f" ({short(facts.where)})" if facts.where is not None else ""
    most = f", {percent(facts.share)} of loading is in `{facts.function}`{at}" if facts.function else ""
    return f"Loading is CPU-bound: a sample needs {duration(facts.cpu)} of CPU time{most}."


def _seen(trial: Trial, facts: Differences, own: Measured | None) -> Iterator[str]:
    if facts.step is not None:
        yield needed(trial, facts.step)
    taken = sample_size(trial)
    if taken >= A_BYTE_COUNTS:
        yield f"a sample has {size(taken)}: {facts.cpu / taken * 1e9:,.3g} ns of CPU time per byte"
    workers, cores = own.workers if own is not None else 0, f"{facts.processors:g}"
    full = "" if _free(facts, own) >= 1 else ": more workers would not help"
    yield f"{many(workers, 'worker')} on {cores} CPU core{'' if cores == '1' else 's'}{full}"


def _free(facts: Differences, own: Measured | None) -> int:
    """CPU cores that no worker uses."""
    return int(facts.processors) - max(own.workers if own is not None else 0, 1)


def _options(trial: Trial, facts: Differences, own: Measured | None) -> Iterator[Remedy]:
    stage = f"`{facts.function}`" if facts.function else "making a sample"
    yield Remedy(f"Speed up {stage}: whole-array operations instead of a Python loop, or smaller data")
    yield Remedy("Do what is not random once, before training, and store the result")
    yield Remedy("Do it on the GPU, for whole batches, after loading")
    if _free(facts, own) >= 1:
        command = [f"unstuck tune {quoted(trial.target.name)}"] if trial.target is not None else []
        yield Remedy(f"Try more workers: up to {int(facts.processors)} can compute at once here", command)
