"""The training loop waits until a terminal or a pipe accepts what it prints.

## It means
A terminal over a slow connection, `tee` on a slow disk, or a program at the other end of a pipe reads text more slowly
than the training prints it. Once the buffer between them is full (64 KiB for a pipe), every print waits. A progress bar
that is drawn for every batch is enough.

## Fix
Print less often, or print into a file and follow that:

```python
for step, batch in enumerate(tqdm(loader)):  # before
    print(f"step {step} loss {loss.item()}")
```

```python
for step, batch in enumerate(tqdm(loader, mininterval=10)):  # after: the bar is drawn every 10 s
    if step % 100 == 0:
        print(f"step {step} loss {loss.item()}")
```

```sh
python train.py > train.log 2>&1          # and in another terminal: tail -f train.log
```

## Check it yourself

```sh
cat /proc/PID/wchan; echo                 # a name with pipe_write in it, again and again: it waits while it prints
time python train.py > /dev/null          # much faster than with its output shown?
```

## Not this, if
- the reader stopped for good and nothing goes on: [stdout-pipe-full](stdout-pipe-full.md)
- the time goes into wandb, TensorBoard or a request: [logger-in-hot-loop](logger-in-hot-loop.md)

## How sure
Judged from how many of the watcher's samples found the main thread in a write to a terminal or a pipe while the loop
ran, and at which line. Each sample is a moment: it speaks from four of them on, and from a quarter of all. A reader
that has stopped for good is [stdout-pipe-full](stdout-pipe-full.md).

## Seen in
- https://github.com/ourownstory/neural_prophet/issues/1054: a progress bar printed for every batch slowed the training
- https://github.com/keras-team/keras/pull/2860: limiting the update rate of the bar, also for telnet and ssh
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.glances import Writing, writing
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import quoted_line
from ...wording.text import many, percent
from ..rule import rule


@rule(explains=Symptom.SLOW, certainty=Certainty.LIKELY, needs=("recording", "host"))
def check(case: Case) -> Iterator[Finding]:
    for slow in writing(case):
        yield _finding(case, slow)
        return


def _finding(case: Case, slow: Writing) -> Finding:
    command = quoted_line(case.run.command) or "python train.py"
    return case.finding(
        slow.main,
        cause=f"The loop waits {percent(slow.share)} of the time because {slow.target} is too slow for its output.",
        seen=[
            f"{slow.blocked} of {many(slow.looks, 'sample')} found the main thread in a write to {slow.target}",
            *([f"written by {slow.caller}"] if slow.caller else []),
        ],
        remedy=Remedy("Print only every 100th step, or raise the logging level", code=["if step % 100 == 0:"]),
        alternatives=[
            Remedy("Redraw progress bars less often", code=["for batch in tqdm(loader, mininterval=10):"]),
            Remedy(
                "Print into a file, and follow it from another terminal",
                [f"{command} > train.log 2>&1", "tail -f train.log"],
            ),
        ],
        where=slow.where,
        subject=Subject("output", slow.target),
    )
