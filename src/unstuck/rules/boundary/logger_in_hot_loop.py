"""The training loop spends a good part of its time in a logger, in every step or nearly so.

## It means
A scalar is cheap: wandb puts it into a queue and returns, with `commit=True` (the default) or without. What costs is
work on the training's own thread: encoding images and tables, histograms of all weights (`wandb.watch`), a request to a
server whose answer every batch waits for. `commit=False` is no remedy: without a step it makes wandb overwrite values.

## Fix
Do it less often: what costs 100 ms in each of 4,000 batches is 400 s in every epoch. Media and histograms every few
hundred steps, scalars together every 50 steps, requests in a thread of their own:

```python
for step, batch in enumerate(loader):  # before
    loss = train_step(batch)
    run.log({"loss": loss, "image": wandb.Image(image)})
```

```python
for step, batch in enumerate(loader):  # after
    loss = train_step(batch)
    if step % 50 == 0:
        run.log({"loss": loss})
    if step % 500 == 0:
        run.log({"image": wandb.Image(image, file_type="jpg")})  # jpg encodes faster than png
```

Lightning: `Trainer(log_every_n_steps=50)`. transformers: `TrainingArguments(logging_steps=50)`. wandb.watch:
`wandb.watch(model, log_freq=1000)`. MLflow 2.11 or later: `mlflow.config.enable_async_logging()`.

## Check it yourself

```python
import time

spent = 0.0
for step, batch in enumerate(loader):
    loss = train_step(batch)
    begun = time.perf_counter()
    log_step(loss)  # the call that is under suspicion
    spent += time.perf_counter() - begun
print(f"{spent / (step + 1) * 1000:.1f} ms per step in the logger")
```

```sh
WANDB_MODE=disabled python train.py                    # wandb.Image is encoded even so
```

## Not this, if
- the call never returns: [logger-no-answer](logger-no-answer.md)
- only the end of the epoch is slow: [logger-blocks-epoch-end](logger-blocks-epoch-end.md)
- the time goes into printing: [slow-output](slow-output.md)
- the loop waits for data: [dataloader-bound](dataloader-bound.md)
- `.item()` before logging takes long: it waits for the GPU, which would be computing anyway

## How sure
Judged from how long each call into wandb, TensorBoard, MLflow and each plain HTTP request took inside the loop, by the
line that makes it. The longest call of each line is left aside, because the first often sets something up. Rows that
are put into a wandb.Table one after the other are counted together, as one burst. Certain of the times: they are
measured in this run. It speaks from 15 % of the loop and 5 ms a step on; below that the price is ordinary. A run
without the logger (`WANDB_MODE=disabled`) proves it.

## Seen in
- https://github.com/wandb/wandb/issues/2268: `wandb.watch` with log_freq=10 queried all weights every 10 iterations
- https://github.com/wandb/wandb/issues/8666: wandb.log halved the speed of a loop every few seconds
- https://github.com/wandb/wandb/issues/3701: log="all" made every iteration slower
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...analysis.case import Case
from ...analysis.side_work import (
    HISTOGRAMS,
    MEDIA,
    REQUEST,
    WATCH,
    Loop,
    epoch,
    kind_of,
    library,
    loops,
    modes,
    sites,
    to_change,
    without_wandb,
)
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.settings import in_words_of
from ...wording.text import duration, many, percent, short
from ..rule import rule

SHARE = 0.15  # of the loop: what is less is not worth changing a program for
EACH = 0.005  # seconds a step: a handful of scalars stays below it even on a busy machine, whatever the step takes
SECONDS = 1.5  # in all: less may be chance
STEPS = 5
WORTH = 0.02  # share of the loop that logging may cost once it is done less often
POINTS = 10  # values of an epoch that are left: with fewer there is no curve any more
ASIDE = 0.02  # of what was spent: from then on the numbers of the lines do not add up


@rule(explains=Symptom.SLOW, certainty=Certainty.LIKELY, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    slow = [loop for loop in loops(case) if _matters(loop)]
    if slow:
        yield _finding(case, max(slow, key=lambda loop: loop.spent))


def _matters(loop: Loop) -> bool:
    return loop.steps >= STEPS and loop.share >= SHARE and loop.each >= EACH and loop.spent >= SECONDS


def _finding(case: Case, loop: Loop) -> Finding:
    first = loop.parts[0]
    where = to_change(loop.main, first)
    what = "HTTP requests take" if kind_of(first) == REQUEST else "Logging takes"
    cost = "and other calls cost" if len(loop.parts) > 1 else "costs"
    remedy, *alternatives = _remedies(case, loop)
    return case.finding(
        loop.main,
        cause=f"{what} {percent(loop.share)} of the loop: {first.name} {cost} {duration(loop.each)} in every step.",
        seen=[
            *sites(loop.parts),
            *_price(loop),
            *_aside(loop),
            *([f"loader: {loop.loader.name}"] if loop.loader is not None else []),
            *([modes(loop.main)] if loop.main.loggers else []),
        ],
        remedy=remedy,
        alternatives=alternatives,
        where=where,
        subject=Subject("logger", library(first.name) or first.name),
    )


def _price(loop: Loop) -> Iterator[str]:
    yield f"{many(loop.steps, 'step')} took {duration(loop.looped)}, {duration(loop.rest)} each without these calls"
    batches = epoch(loop.loader) if loop.loader is not None else None
    if batches:
        yield (
            f"an epoch of {many(batches, 'batch')} pays {batches:,} x {duration(loop.each)} = "
            f"{duration(batches * loop.each)}"
        )


def _aside(loop: Loop) -> Iterator[str]:
    if loop.aside >= ASIDE * loop.spent:
        yield (
            f"the longest call of each line, {duration(loop.aside)} together, is not counted: "
            "it may have set something up"
        )


def _remedies(case: Case, loop: Loop) -> list[Remedy]:
    kinds: dict[str, float] = {}
    for part in loop.parts:
        kinds[kind_of(part)] = kinds.get(kind_of(part), 0.0) + part.seconds
    kind = max(kinds, key=lambda one: kinds[one])
    # wandb makes images even where it is disabled: that run would prove nothing.
    wandb = kind != MEDIA and "wandb" in {library(part.name) for part in loop.parts}
    proof = Remedy("Run once without wandb: as slow as before means that it is not wandb", [without_wandb(case)])
    return [*_advice(case, kind, loop), *([proof] if wandb else [])]


def _every(loop: Loop) -> int | None:
    """Steps between two calls: so many that they cost no more than is worth it, so few that a curve is left of them."""
    most = (_epoch(loop) or loop.steps) // POINTS
    wanted = _wanted(loop)
    if wanted <= most:
        return wanted
    return most - most % 10 if most >= 10 else most if most > 1 else None


def _epoch(loop: Loop) -> int | None:
    """Steps of an epoch. A run that ended within its first one may never make a whole one: then nothing is known."""
    loader = loop.loader
    return None if loader is None or (loop.main.ended is not None and not loader.ended) else epoch(loader)


def _wanted(loop: Loop) -> int:
    """A round number."""
    often = max(part.count for part in loop.parts) / loop.steps
    wanted = loop.each / max(loop.rest * WORTH, 1e-6) / max(min(often, 1.0), 1e-3)
    digits: int = 10 ** max(len(str(ceil(wanted))) - 1, 1)
    return min(ceil(wanted / digits) * digits, 10_000)


def _seldom(loop: Loop) -> str:
    every = _every(loop)
    if every is not None:
        return f"every {every:,} steps"
    return "once an epoch" if _epoch(loop) else "every few steps"


def _advice(case: Case, kind: str, loop: Loop) -> list[Remedy]:
    name, every, seldom = loop.parts[0].name, _every(loop), _seldom(loop)
    test = _test(loop, every)
    if kind == MEDIA:
        what = "tables" if name.startswith("wandb.Table") else "images and other media"
        smaller = Remedy("Encode images as jpg, which is faster than png", code=['wandb.Image(image, file_type="jpg")'])
        return [
            Remedy(f"Log {what} {seldom}, fewer or smaller", code=test),
            *([smaller] if name == "wandb.Image" else []),
        ]
    if kind == HISTOGRAMS:
        code = [f"wandb.watch(model, log_freq={every})"] if name == WATCH and every is not None else test
        return [Remedy(f"Compute histograms {seldom}", code=code)]
    if kind == REQUEST:
        thread = Remedy(
            "Send from a background thread, which the loop does not wait for",
            code=[
                "sender = ThreadPoolExecutor(max_workers=1)  # once, before training",
                "sender.submit(requests.post, url, json=values, timeout=10)",
            ],
        )
        return [Remedy(f"Collect the values and send them together {seldom}", code=test), thread]
    lost = "; commit=False does not help, it loses rows" if library(name) == "wandb" else ""
    queued = Remedy("Let MLflow log in the background", code=["mlflow.config.enable_async_logging()"])
    return [
        Remedy(f"Log {seldom}, all values in one call{lost}", code=test),
        *(case.from_version("mlflow", 2, 11, remedy=queued) if name.startswith("mlflow") else []),
    ]


def _test(loop: Loop, every: int | None) -> list[str]:
    """How the call is made less often, in this run's own words."""
    if every is None:
        return []
    where = loop.parts[0].where
    own = f"if step % {every} == 0:" + (f"  # around the call at {short(where)}" if where is not None else "")
    told = in_words_of(
        loop.main,
        own,
        lightning=f"Trainer(log_every_n_steps={every})",
        transformers=f"TrainingArguments(logging_steps={every})",
    )
    return [told]
