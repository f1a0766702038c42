"""A worker computes one sample far too long without reading anything: probably an endless loop.

## It means
Mostly this is "try again until the sample is valid" where no sample ever is: a retry loop around a broken file,
rejection sampling or a random crop that cannot succeed, a filter that drops everything. The worker keeps a core busy,
nothing is read, memory does not grow, and no batch comes.

## Fix
Give the loop a limit. After so many tries, raise an error that names the sample, or skip it.
```python
# before
while True:
    crop = random_crop(image)
    if crop.max() > 0:
        return crop

# after
for _ in range(100):
    crop = random_crop(image)
    if crop.max() > 0:
        return crop
raise ValueError(f"no valid crop in sample {index}")
```

## Check it yourself
Where it loops, with the values of its variables (py-spy may need root, or `--cap-add SYS_PTRACE` in Docker):
```sh
py-spy dump --pid "$WORKER_PID" --locals
```
Or load this sample alone, and press Ctrl-C: the traceback ends in the loop.
```python
dataset[index]
```

## Not this, if
- the worker is asleep rather than computing: [worker-blocked-io](worker-blocked-io.md)
- it is still filling a shuffle buffer: [shuffle-buffer-large](shuffle-buffer-large.md)
- all texts are blank, and the loader loops over them: [all-documents-blank](all-documents-blank.md)
- the main process loops over an empty list of files: [nanochat-empty-split-spin](nanochat-empty-split-spin.md)

## How sure
Judged from a worker that uses a whole core, or is ready to, inside one and the same sample while the main process waits
for it, far beyond what a sample takes in this run; from what it reads and writes, and whether its memory grows. A long
computation that reads nothing and keeps its memory looks the same from outside, so it is reported only after ten times
what samples of this run usually take, or, where no sample was ever finished, after a minute.

## Seen in
- https://github.com/albumentations-team/albumentations/issues/361: `RandomFog` and other augmentations with while loops
  that never end.
- https://github.com/pytorch/pytorch/issues/33296: a training stuck in such an augmentation, found with `num_workers=0`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import Culprit, calls, culprit, found
from ...analysis.standstill import LONG, computes, fetchers, fetching, gets_on, same_sample
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.live import Seen
from ...wording.text import duration, size
from ..rule import rule

TIMES = 10  # of a usual sample: the factor of the stall clock
FIRST = 60.0  # seconds, for a worker that has not finished any sample yet
FEW_FAULTS = 50  # pages a second: what the interpreter touches anyway; a buffer that fills touches more

REMEDY = Remedy(
    "Limit the loop: after some tries, raise an error that names the sample, or skip it",
    code=["for _ in range(100):", "    ...", 'raise ValueError(f"no valid result for sample {index}")'],
)


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for _, seen, stack in fetchers(case):
        if not computes(seen.main_task, seen.looked) or gets_on(seen) or not same_sample(stack):
            continue
        one = culprit(case, seen, stack)
        if one.seconds < _patience(case, seen):
            continue
        usual = _usual(case, seen)
        yield found(
            one,
            f"{one.name} has computed{_sample(one)} for {duration(one.seconds)} without I/O: probably an endless loop.",
            [
                f"over {duration(seen.looked)}, pid {seen.pid} was on a CPU core or ready to run for "
                f"{duration(seen.main_task.cpu + seen.main_task.queued)} ({duration(seen.main_task.cpu)} on a core), "
                f"read and wrote nothing, and its memory grew by {size(seen.anonymous_grown)}",
                *([f"99 of 100 samples of this worker take less than {duration(usual)}"] if usual else ()),
                calls(one),
            ],
            REMEDY,
            case,
            alternatives=_others(one),
        )
        return


def _sample(one: Culprit) -> str:
    return "" if one.sample is None else f" sample {one.sample}"


def _others(one: Culprit) -> list[Remedy]:
    alone = Remedy("Load this sample alone, without workers", code=[f"dataset[{one.sample}]"])
    where = Remedy("See where it loops, and with which values", [f"py-spy dump --pid {one.seen.pid} --locals"])
    return [where, alone] if isinstance(one.sample, int) else [where]


def _usual(case: Case, seen: Seen) -> float | None:
    known = fetching(case, seen)
    return known.sample_times.p99 if known is not None and known.sample_times.count else None


def _patience(case: Case, seen: Seen) -> float:
    usual = _usual(case, seen)
    if usual is not None:
        return max(LONG, TIMES * usual)
    if case.stall is not None:
        return FIRST
    # Not recorded: that it has delivered batches before shows in the thread that sends them, and a buffer that fills
    # touches new pages all the time.
    return LONG if len(seen.tasks) > 1 or seen.faults <= FEW_FAULTS * max(seen.looked, 1.0) else FIRST
