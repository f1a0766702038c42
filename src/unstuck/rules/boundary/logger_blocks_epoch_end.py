"""The next epoch waits for a logger: uploads, artifacts or a flush take the time between two epochs.

## It means
At the end of an epoch there is more to log than in a step: images, tables, a checkpoint as an artifact, all rows that
were collected, a flush. Where this is sent from the training's own thread, the training waits for the network; on a
run of several ranks, all of them wait for the rank that logs. Logging every batch cannot by itself block the end of an
epoch: that costs the same in every step, and is another rule.

## Fix
Give the request a timeout, and send from a thread of its own:

```python
requests.post(url, json=results)  # before: the next epoch waits
```

```python
uploads = ThreadPoolExecutor(max_workers=1)  # after: once, before training
sent = uploads.submit(requests.post, url, json=results, timeout=10)
...
sent.result()  # at the next epoch's end: raises what failed
```

Large things (artifacts, tables, images) can be written to a local folder and uploaded once, after training.

## Check it yourself

```python
import time

begun = time.perf_counter()
log_epoch(results)  # the call that is under suspicion
print(f"{time.perf_counter() - begun:.2f} s")
```

```sh
WANDB_MODE=disabled python train.py      # as slow as before? Then it is not wandb
```

## Not this, if
- the call never returns: [logger-no-answer](logger-no-answer.md), [wandb-finish-hang](wandb-finish-hang.md)
- every step is slow: [logger-in-hot-loop](logger-in-hot-loop.md)
- the time goes into saving or into other code: [slow-checkpoint](slow-checkpoint.md),
  [epoch-boundary-gap](epoch-boundary-gap.md)
- the other ranks wait for a collective that only one rank calls: [rank0-only-collective](rank0-only-collective.md)

## How sure
Judged from how long it took from the end of each epoch of a loader to the first batch of the next, and how much of that
went into calls of wandb, TensorBoard, MLflow or plain HTTP requests, by the line that makes them. Certain of the times:
they are measured in this run. It speaks from one second between epochs and a tenth of the run on. A call that does not
return is [logger-no-answer](logger-no-answer.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.loading import lasted
from ...analysis.side_work import (
    LOGGING,
    REQUEST,
    at_boundaries,
    kind_of,
    library,
    modes,
    sites,
    without_wandb,
)
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Part
from ...evidence.process import Process
from ...wording.text import duration, many, percent, short
from ..rule import rule

EACH = 1.0  # seconds a boundary: what is shorter is not noticed
SHARE = 0.1  # of the run
WORTH = 0.01  # of what loggers took there: short calls are not all counted, and do not matter


class Boundaries(NamedTuple):
    """What loggers took between the epochs of one loader."""

    main: Process
    loader: Loader
    seconds: float
    gaps: float
    passes: int
    parts: list[Part]


@rule(explains=Symptom.SLOW, certainty=Certainty.LIKELY, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    found = [one for main in case.mains for loader in main.loaders if (one := _boundaries(main, loader))]
    slow = [one for one in found if one.seconds / one.passes >= EACH and one.seconds >= SHARE * lasted(one.main)]
    if slow:
        yield _finding(case, max(slow, key=lambda one: one.seconds))


def _boundaries(main: Process, loader: Loader) -> Boundaries | None:
    known = at_boundaries(loader)
    seconds = sum(spent for _, spent in known)
    if not seconds:
        return None
    parts: dict[tuple[str, object], Part] = {}
    for gap, _ in known:
        for one in gap.parts:
            if one.what in LOGGING:
                key = (one.name, one.where)
                before = parts.get(key)
                total, count = (before.seconds, before.count) if before else (0.0, 0)
                parts[key] = Part(one.what, one.name, total + one.seconds, count + one.count, one.where)
    worth = [one for one in parts.values() if one.seconds >= WORTH * seconds]
    ordered = sorted(worth, key=lambda one: -one.seconds)
    return Boundaries(main, loader, seconds, sum(gap.seconds for gap, _ in known), len(known), ordered)


def _finding(case: Case, one: Boundaries) -> Finding:
    first, each = one.parts[0], one.seconds / one.passes
    others = " and other calls" if len(one.parts) > 1 else ""
    remedy, *alternatives = _remedies(case, one, first)
    return case.finding(
        one.main,
        cause=f"Training waits {duration(each)} for {first.name}{others} after every epoch, "
        f"{percent(one.seconds / max(lasted(one.main), 1e-9))} of the run.",
        seen=[
            *sites(one.parts),
            f"{many(one.passes, 'pause')} between epochs, {duration(one.gaps / one.passes)} each: "
            f"{duration(each)} of that in these calls",
            f"loader: {one.loader.name}",
            *([modes(one.main)] if one.main.loggers else []),
        ],
        remedy=remedy,
        alternatives=alternatives,
        where=first.where,
        subject=Subject("logger", library(first.name) or first.name),
    )


def _remedies(case: Case, one: Boundaries, first: Part) -> list[Remedy]:
    request = kind_of(first) == REQUEST
    spot = f" at {short(first.where)}" if first.where else ""
    send = "requests.post, url, json=values, timeout=10" if request else "log_epoch, values"
    thread = Remedy(
        f"Make the call{spot} from a background thread: the next epoch then starts at once",
        code=[
            "uploads = ThreadPoolExecutor(max_workers=1)  # once, before training",
            f"sent = uploads.submit({send})",
            "sent.result()  # at the next epoch's end: raises what failed",
        ],
    )
    limit = Remedy("Give the request a timeout", code=["requests.post(url, json=values, timeout=10)"])
    later = Remedy("Write artifacts, tables and images to a local folder, and upload them once after training")
    proof = Remedy("Run once without wandb: as slow as before means that it is not wandb", [without_wandb(case)])
    wandb = any(library(part.name) == "wandb" for part in one.parts)
    return [thread, *([limit] if request else []), later, *([proof] if wandb else [])]
