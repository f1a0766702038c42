"""The loader loops endlessly over an empty list: it uses a whole CPU core and yields no batch.

## It means

A split leaves nothing for training: the last shard is held out for validation, and there is only one; a pattern matches
no file; or a resume position lies behind the last file. Around it is `while True`: the data never ends, and never
begins either. It looks like a tokenizer at work: full CPU load, GPU idle, no batch.

## Fix

Have at least as many files as the split needs, and fail when the list is empty:

```python
paths = sorted(glob.glob("data/*.parquet"))
train = paths[:-1]  # empty where there is only one file
while True:  # before: loops endlessly
    for path in train:
        yield from rows(path)
```
```python
train = paths[:-1]
if not train:  # after
    raise FileNotFoundError(f"no training files: {len(paths)} in all, the last is for validation")
while True:
    for path in train:
        yield from rows(path)
```

## Check it yourself

Print the list right before the loop, or look into the running process, at the line and the variables:

```sh
ls data/*.parquet | wc -l
py-spy dump --pid PID --locals
```

## Not this, if

- tokens or memory grow: it is still loading, see [first-batch-slow](first-batch-slow.md)
- files are opened or read again and again: [loop-without-batch](loop-without-batch.md)
- only high ranks hang, and parquet files are opened: [rank-without-row-groups](rank-without-row-groups.md)
- rows are read, but all texts are blank: [all-documents-blank](all-documents-blank.md)
- one sample computes endlessly, after batches came: [worker-infinite-loop](worker-infinite-loop.md)

## How sure

It is judged from the line at which a main process or a worker computes, at two moments: whether it is inside an endless
loop whose inner loop runs over something empty, by the source and by the value of the variable. Also from what changed:
nothing read or written, no memory growth; in a recorded run, no documents and no tokens. It is certain where the empty
list is seen, and where the inner loop's variable has no value, because the loop was never entered. Where neither is
known, as over the result of a call, it waits for a minute in which nothing was read, nothing grew, and no batch ever
came.

## Seen in

- https://github.com/karpathy/autoresearch/pull/162: an empty list of training shards made a silent infinite loop; now
  it is asserted
- https://github.com/karpathy/nanochat/pull/620: with one parquet file `parquet_paths[:-1]` is empty
- https://github.com/karpathy/nanochat/issues/360: the file index was never reset, so after the last file the inner
  loop of `while True` never ran again
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.first_batch import gave_batches, so_far
from ...analysis.stacks import SCANNING, doing, place, user_frame
from ...analysis.standstill import computes, earlier, main_stack, recorded, standing
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Frame, Seen, Stack
from ...wording.text import duration, percent
from ..rule import Level, rule

EMPTY = {  # as a value is written; else the loop's own variable shows it
    "[]": "an empty list",
    "()": "an empty tuple",
    "{}": "an empty dict",
    "set()": "an empty set",
    "0": "nothing",
}
NAME = re.compile(r"[A-Za-z_][\w.]*")  # a variable or an attribute: no call, no slice
GROWN = 1 << 18  # bytes: what an interpreter may take for itself in a second; a buffer that fills takes more
A_MINUTE = 60.0  # seconds, where the value is not known: longer than most computations that read nothing


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes", "stacks"), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        stack = main_stack(case, seen.pid)
        if stack is None or seen.role not in ("main", "worker", "child") or not _spins(seen):
            continue
        frame, before = _frame(stack), _frame(earlier(stack))
        if frame is None or before is None or frame.name != before.name or not frame.loops or not before.loops:
            continue
        empty = _empty(case, seen, frame)
        if empty or _long_enough(case, seen, stack):
            yield _found(case, seen, frame, empty)
            return


def _spins(seen: Seen) -> bool:
    still = not seen.read and not seen.written and seen.anonymous_grown <= GROWN
    return still and computes(seen.main_task, seen.looked)


def _frame(stack: Stack) -> Frame | None:
    """The innermost call, if it is the user's own: other code below it does real work, except looking for files."""
    calls = stack.calls
    if doing(stack) == SCANNING:
        return user_frame(calls)
    return calls[0] if calls and user_frame(calls[:1]) is not None else None


def _empty(case: Case, seen: Seen, frame: Frame) -> dict[str, str]:
    """What the loop runs over and is certainly empty: by its value, or by the loader's dataset."""
    found = {name: value for name, value in frame.loops.items() if value}
    process = recorded(case, seen)
    owner = case.owner_of(process.node, process.pid) if process is not None else None
    loaders = [owner.loader] if owner is not None else process.loaders if process is not None else []
    for name in frame.loops:
        told = [one.attributes.get(name.removeprefix("self.")) for one in loaders if name.startswith("self.")]
        if told and all(str(one) in ("list of 0", "tuple of 0", "dict of 0") for one in told):
            found[name] = "[]"
    return found


def _long_enough(case: Case, seen: Seen, stack: Stack) -> bool:
    process = recorded(case, seen)
    if process is None or case.stall is None or process.optimizer_steps:
        return False
    return not gave_batches(process) and standing(case, seen, stack) >= A_MINUTE


def _found(case: Case, seen: Seen, frame: Frame, empty: dict[str, str]) -> Finding:
    where = place(frame)
    names = ", ".join(empty or frame.loops)
    subject = next(iter(empty or frame.loops))
    if empty and set(empty.values()) <= set(EMPTY):
        over = f"{EMPTY[empty[subject]]}: `{names}` is {empty[subject]} in {frame.name}, so"
    elif empty:
        over = f"something empty: `{names}` yields nothing in {frame.name}, so"
    else:
        over = f"something that seems to be empty: `{names}` in {frame.name};"
    fails = ["if not " + subject + ":", '    raise FileNotFoundError("no files for this split")']
    return case.finding(
        seen,
        cause=f"Endless loop over {over} no batch will ever come.",
        seen=list(_seen(case, seen, empty)),
        remedy=Remedy(
            f"Find why {subject} is empty: one shard held out for validation, a pattern without matches, or a resume "
            "position past the end",
            [f"py-spy dump --pid {seen.pid} --locals"],
        ),
        alternatives=[
            Remedy(
                "Raise an error before the loop when there are no files for this split",
                code=fails if NAME.fullmatch(subject) else [],
            )
        ],
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("variable", subject),
    )


def _seen(case: Case, seen: Seen, empty: dict[str, str]) -> Iterator[str]:
    for name, value in empty.items():
        if value not in EMPTY:
            yield f"the loop over {name} was never entered: its variable has no value"
    share = seen.main_task.cpu / max(seen.looked, 0.1)
    queued = seen.main_task.queued / max(seen.looked, 0.1)
    waits = f", waited {percent(queued)} of the time for one" if queued > 0.05 else ""
    yield (
        f"pid {seen.pid} used {percent(share)} of a CPU core over a {duration(seen.looked)} sample{waits}, "
        f"read and wrote nothing, and its memory grew by {max(seen.anonymous_grown, 0)} bytes"
    )
    process = recorded(case, seen)
    if process is not None:
        yield so_far(case, process)
