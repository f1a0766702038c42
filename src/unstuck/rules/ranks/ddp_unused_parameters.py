"""Some parameters got no gradient, and DDP raised an error at the next forward.

## It means

DDP averages every gradient over all ranks before a step is done. Parameters that took no part in the loss get none: a
branch that depends on the data, a head that is not used, an output that is thrown away. DDP finds out one step later,
when forward is called again, so the batch that did it is the one before.

## Fix

Never used: remove them from the model, or freeze them before DDP is made.

```python
for parameter in model.head.parameters():
    parameter.requires_grad_(False)
model = DDP(model)
```

Used now and then:

```python
model = DDP(model, find_unused_parameters=True)  # walks through the graph at every step
Trainer(strategy="ddp_find_unused_parameters_true")  # Lightning
TrainingArguments(ddp_find_unused_parameters=True)  # transformers
```

Or let the branch that is not taken add nothing to the loss:

```python
loss = loss + 0.0 * sum(parameter.sum() for parameter in model.module.branch.parameters())
```

The same parameters unused in every single step: `DDP(model, static_graph=True)` needs no walk through the graph.

## Check it yourself

```python
loss.backward()  # the model without DDP, one batch
print([name for name, parameter in model.named_parameters() if parameter.requires_grad and parameter.grad is None])
```

```sh
TORCH_DISTRIBUTED_DEBUG=INFO torchrun --nproc-per-node 2 train.py       # the message then has the names
```

## Not this, if

- a rank ran out of batches: [ddp-uneven-batches](ddp-uneven-batches.md)
- a rank skipped backward for a batch: [rank-local-skip-desync](rank-local-skip-desync.md)
- parameters differ in shape between the ranks: [collective-shape-mismatch](collective-shape-mismatch.md)

## How sure

Certain: it is torch's own check. Judged from DDP's exception on whichever rank it came first, with the numbers of the
parameters that it names, their names from when the model was wrapped, and how far that rank had come. The rank that it
names is the one whose parameters got no gradient; the others fail because of it, or raise the same if the same
parameters are unused everywhere.

## Seen in

- https://github.com/pytorch/pytorch/issues/43259: what the error means, and false alarms with torch.no_grad
- https://github.com/open-mmlab/mmdetection3d/issues/488: a two-stage detector needs find_unused_parameters
- https://github.com/Megvii-BaseDetection/YOLOX/issues/885: outputs of a backbone that the loss does not use
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.rank_deaths import GAVE_UP, PARTNER_GONE, TOLD_TO_GO, Death, deaths
from ...analysis.ranks import listed
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure, Process
from ...wording.settings import framework_of, in_words_of
from ...wording.text import duration, line, many, short, who
from ..rule import rule

TEXTS = (
    "Expected to have finished reduction in the prior iteration before starting a new one.",
    "This error indicates that your module has parameters that were not used in producing loss.",
    "Parameter indices which did not receive grad for rank",
    "making sure all `forward` function outputs participate in calculating loss",
)
SAYS = "Expected to have finished reduction in the prior iteration"
INDICES = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")
# With TORCH_DISTRIBUTED_DEBUG=INFO or DETAIL torch says the names itself.
NAMES = re.compile(r"did not receive grad for rank \d+: ([\w., ]*[A-Za-z][\w., ]*)")
SHOWN = 2  # names in a sentence
LISTED = 12  # in the evidence


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    ended = deaths(case)
    raised = [one for one in ended if one.failure is not None and _says(one.failure)]
    for first in raised[:1]:
        process = first.process
        unused = _unused(first)
        remedies = _remedies(process, unused, everywhere=len(raised) > 1)
        yield case.finding(
            process,
            cause=f"DDP got no gradient for {_listed(unused)} on {_rank(process)}{_step(process)}.",
            seen=list(_seen(first, unused, raised, ended)),
            remedy=remedies[0],
            alternatives=remedies[1:],
            onset_s=first.at,
            where=first.where,
            subject=Subject("parameter", unused[0]) if unused else None,
        )


def _says(failure: Failure) -> bool:
    return any(SAYS in text for text in (failure.message, *(message for _, message in failure.causes)))


def _unused(first: Death) -> list[str]:
    """By name as far as the names are known, else by number."""
    message = first.failure.message if first.failure is not None else ""
    if names := NAMES.search(message):
        return [one.strip() for one in names[1].split(",") if one.strip()]
    numbers = INDICES.search(message)
    if numbers is None:
        return []
    known = next((one.names for one in reversed(first.process.wrapped) if one.names), [])
    return [known[int(one)] if int(one) < len(known) else f"number {one}" for one in numbers[1].split()]


def _listed(unused: list[str]) -> str:
    if not unused:
        return "some parameters"
    more = f" and {many(len(unused) - SHOWN, 'other')}" if len(unused) > SHOWN else ""
    return f"{', '.join(unused[:SHOWN])}{more}"


def _rank(process: Process) -> str:
    return f"rank {process.rank}" if process.rank is not None else who(process)


def _step(process: Process) -> str:
    return f" in step {process.optimizer_steps:,}" if process.optimizer_steps else ""


def _seen(first: Death, unused: list[str], raised: list[Death], ended: list[Death]) -> Iterator[str]:
    yield f'{who(first.process)}: "{SAYS}", at the next forward ({line(first.where)}), after {duration(first.at)}'
    if len(unused) > SHOWN:
        more = f" and {len(unused) - LISTED:,} more" if len(unused) > LISTED else ""
        yield f"without a gradient: {', '.join(unused[:LISTED])}{more}"
    same = [one.process.rank for one in raised[1:] if one.process.rank is not None]
    if same:
        yield f"{listed(sorted(same))} raised the same"
    lost = [one.process.rank for one in ended if one.how in (PARTNER_GONE, GAVE_UP, TOLD_TO_GO)]
    ranks = sorted(one for one in lost if one is not None)
    if ranks:
        yield f"{listed(ranks)} failed because of it"
    for one in first.process.wrapped[-1:]:
        yield f"DDP was made at {line(one.where)} with find_unused_parameters={one.find_unused_parameters}"


def _remedies(process: Process, unused: list[str], *, everywhere: bool) -> list[Remedy]:
    wrapped = process.wrapped[-1] if process.wrapped else None
    if wrapped is not None and wrapped.find_unused_parameters:
        return [
            Remedy(
                "Return every tensor that the loss uses from forward, in a tensor, list, tuple or dict: "
                "find_unused_parameters did not find these."
            )
        ]
    at = f"  # {short(wrapped.where)}" if wrapped is not None and wrapped.where is not None else ""
    give = in_words_of(
        process,
        f"DDP(model, find_unused_parameters=True){at}",
        lightning='Trainer(strategy="ddp_find_unused_parameters_true")',
        transformers="TrainingArguments(ddp_find_unused_parameters=True)",
    )
    part = unused[0].rpartition(".")[0].removeprefix("module.") if unused and "number" not in unused[0] else ""
    branch = f"model.module.{part}" if part else "model.module"
    find = Remedy("Let DDP look for unused parameters: it walks through the graph at every step.", code=[give])
    add = Remedy(
        "Let the branch that was not taken add nothing to the loss.",
        code=[f"loss = loss + 0.0 * sum(p.sum() for p in {branch}.parameters())"],
    )
    if not everywhere:
        return [find, add]
    frozen = f"model.{part}" if part else "unused_part"
    freeze = Remedy(
        "Remove them from the model if they are never used, or freeze them before DDP is made.",
        code=[f"{frozen}.requires_grad_(False)"],
    )
    static = Remedy("If they are unused in every step: static_graph=True.", code=["DDP(model, static_graph=True)"])
    return [freeze, find, static if framework_of(process) is None else add]
