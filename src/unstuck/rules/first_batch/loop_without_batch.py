"""A loop in the training's own code runs endlessly and yields no batch.

## It means

A data loader that starts over when its data ends does not notice when there is nothing: the list of files is empty, a
filter drops every document, no row group is assigned to this rank, or rejection sampling cannot succeed. `while True`
and the empty `for` are often in different functions, so no single line shows it. The same files are read again and
again, or nothing is. A busy CPU core looks like work.

## Fix

Count what one round over the data yields, and raise an error when it is nothing:

```python
def documents(paths):
    while True:
        yielded = 0
        for path in paths:
            for text in texts(path):
                if wanted(text):
                    yielded += 1
                    yield text
        if not yielded:
            raise RuntimeError(f"nothing wanted in {len(paths)} files")
```

Rejection sampling needs a limit, too:

```python
for _ in range(1000):
    crop = draw()
    if accepted(crop):
        return crop
raise RuntimeError("no crop was accepted in 1,000 tries")
```

## Check it yourself

See where it loops and what the variables hold; twice, some seconds apart. Then see whether files are opened again:

```sh
py-spy dump --pid PID --locals
timeout 5 strace -f -e trace=openat -p PID
```

## Not this, if

- the list it loops over is empty: [nanochat-empty-split-spin](nanochat-empty-split-spin.md)
- parquet files are opened, but no row group is read: [rank-without-row-groups](rank-without-row-groups.md)
- rows are read, but all texts are blank: [all-documents-blank](all-documents-blank.md)
- one sample computes endlessly, after batches came: [worker-infinite-loop](worker-infinite-loop.md)
- memory or a token count grows: it is still loading, see [first-batch-slow](first-batch-slow.md)

## How sure

It is judged from a main process, or a worker with a batch due, whose main thread computes without progress: the lines
of the training's own code that it is sampled at for several seconds, the files it begins again, whether it writes, and
whether its memory grows. In a recorded run, also from the fact that no batch and no optimizer step ever came. Files
that are begun again and again with nothing kept of them are reported after 10 s. A loop that reads nothing looks like a
long computation: it has a minute, is reported as *waiting*, and is not reported while memory grows or the calls vary.
Without a recording it speaks only about a generator, a sampler or a DataLoader's fetch; other code may have had batches
before, and that run stays *unknown*.

## Seen in

- https://github.com/karpathy/nanochat/issues/371: training hangs in `next(train_loader)` once the few files are used up
- https://github.com/karpathy/nanochat/issues/360: the reason: the file index is not reset inside `while True`
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.endless_loops import (
    A_MINUTE,
    SETTLED,
    around,
    begun_again,
    goes_round,
    is_awaited,
    lines,
    only_computes,
)
from ...analysis.first_batch import gave_batches, so_far
from ...analysis.stacks import place
from ...analysis.standstill import main_stack, recorded, standing
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Frame, Rounds, Seen, Stack
from ...evidence.process import Failure
from ...wording.text import duration, many, percent, said, short, size
from ..rule import rule
from ._naming import subject_of

LINES = 4  # that are told
FILES = 3


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("processes", "stacks"),
    outranks=("worker-infinite-loop", "silent-rank-data-stall"),
)
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        stack, rounds = main_stack(case, seen.pid), seen.rounds
        if stack is None or rounds is None or not _before_the_first(case, seen, stack):
            continue
        seconds = standing(case, seen, stack) if recorded(case, seen) is not None else rounds.seconds
        frame = around(rounds, stack)
        if frame is None or not _loops(rounds, seconds):
            continue
        yield _found(case, seen, frame, seconds)


def _before_the_first(case: Case, seen: Seen, stack: Stack) -> bool:
    """By the recording; without one, something has to wait for what the loop should yield."""
    process = recorded(case, seen)
    return is_awaited(stack) if process is None else not gave_batches(process) and process.optimizer_steps == 0


def _loops(rounds: Rounds, seconds: float) -> bool:
    return (goes_round(rounds) and seconds >= SETTLED) or (only_computes(rounds) and seconds >= A_MINUTE)


def _found(case: Case, seen: Seen, frame: Frame, seconds: float) -> Finding:
    rounds = seen.rounds
    assert rounds is not None
    where = place(frame)
    files = begun_again(rounds) if goes_round(rounds) else {}
    name = subject_of(seen)
    if files:
        cause = f"{name} loops endlessly in `{frame.name}`: it rereads {_named(files)} and yields no batch."
    else:
        cause = f"{name} loops in `{frame.name}`, reads and keeps nothing: no batch came in {duration(seconds)}."
    remedy, instead = _options(case, seen, frame)
    return case.finding(
        seen,
        cause=cause,
        seen=list(_seen(case, seen, rounds, files, seconds)),
        remedy=remedy,
        alternatives=[instead],
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("file", next(iter(files))) if files else None,
        symptom="" if files else Symptom.WAITING.value,
    )


def _options(case: Case, seen: Seen, frame: Frame) -> tuple[Remedy, Remedy]:
    """If something waits for the loop, look at what it yields; else at what should end it."""
    stack, look = main_stack(case, seen.pid), [f"py-spy dump --pid {seen.pid} --locals"]
    if stack is not None and is_awaited(stack):
        return (
            Remedy(
                f"Find why {frame.name} yields nothing: an empty list, a filter that drops everything, "
                "or no data for this rank",
                look,
            ),
            Remedy(
                "Raise an error when one round over the data yields nothing",
                code=["if not yielded:", '    raise RuntimeError("no data")'],
            ),
        )
    return (
        Remedy(f"Find what should end the loop in {frame.name}: a flag, a file or a count that never comes", look),
        Remedy(
            "Give the loop a time limit",
            code=["if time.monotonic() > deadline:", '    raise TimeoutError("waited too long")'],
        ),
    )


def _named(files: dict[str, int]) -> str:
    first = next(iter(files)).rpartition("/")[2]
    return first if len(files) == 1 else f"{first} and {many(len(files) - 1, 'other')}"


def _seen(case: Case, seen: Seen, rounds: Rounds, files: dict[str, int], seconds: float) -> Iterator[str]:
    read = f"read {size(rounds.read)} again" if rounds.read else "read nothing"
    since = f"no progress for {duration(seconds)}; " if files else ""
    yield f"{since}in {duration(rounds.seconds)} pid {seen.pid} {read}, wrote nothing, and its memory did not grow"
    for path, times in list(files.items())[:FILES]:
        yield f"{path}: begun again at least {many(times, 'time')}"
    met = lines(rounds)
    total = sum(met.values())
    spots = ", ".join(
        f"{short(where)} ({where.function.rpartition('.')[2]}) {percent(count / total)}"
        for where, count in list(met.items())[:LINES]
    )
    yield f"{many(total, 'stack sample')} at {many(len(met), 'line')}: {spots}"
    process = recorded(case, seen)
    if process is not None:
        yield so_far(case, process) if process.sources else "no batch and no optimizer step so far"
        yield from (_died(one) for one in process.failures if one.how == "thread")


def _died(failure: Failure) -> str:
    """The loop may wait for what this thread was to deliver."""
    place = user_line(failure)
    at = f" at {short(place)}" if place is not None else ""
    return f"thread {failure.thread} raised {said(failure, 200)}{at}"
