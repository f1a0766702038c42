"""Some parameters got no gradient, and DDP waited for it.

## What it looks at
DDP's own exception, "Expected to have finished reduction in the prior iteration", on whichever rank it came first, with
the numbers of the parameters that it names; their names from when the model was wrapped; and how far that rank had
come.

## Why it happens
DDP averages every gradient over all ranks before a step is done. Parameters that took no part in the loss get none: a
branch that depends on the data, a head that is not used, an output that is thrown away. DDP finds out one step later,
when forward is called again, so the batch that did it is the one before.

## What to do
Leave out of the model what is never used, or freeze it before DDP is made (`requires_grad_(False)`). For what is used
now and then: `find_unused_parameters=True`, which costs a walk through the graph at every step; or let every branch add
nothing to the loss: `loss + 0.0 * sum(p.sum() for p in branch.parameters())`.

## How sure it is
Certain: it is torch's own check. The rank that it names is the one whose parameters went without; the others die of it,
or raise the same, if the same parameters are unused everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.rank_deaths import GAVE_UP, PARTNER_GONE, TOLD_TO_GO, Death, deaths
from ...analysis.ranks import listed
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure, Process
from ...wording.settings import in_words_of
from ...wording.text import duration, line, many, short, who
from ..rule import rule

SAYS = "Expected to have finished reduction in the prior iteration"
INDICES = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")
# With TORCH_DISTRIBUTED_DEBUG=INFO or DETAIL torch says the names itself.
NAMES = re.compile(r"did not receive grad for rank \d+: ([\w., ]*[A-Za-z][\w., ]*)")
SHOWN = 6  # names in a sentence


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    ended = deaths(case)
    raised = [one for one in ended if one.failure is not None and _says(one.failure)]
    for first in raised[:1]:
        process = first.process
        unused = _unused(first)
        name = who(process)
        yield case.finding(
            process,
            cause=f"{_listed(unused)} got no gradient on {name}{_step(process)}, and DDP waits for every gradient: it "
            f"found out when forward was called again{f' at {short(first.where)}' if first.where else ''}.",
            seen=list(_seen(first, raised, ended)),
            remedy=_remedy(process, everywhere=len(raised) > 1),
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
        return "Some parameters"
    more = f" and {many(len(unused) - SHOWN, 'other')}" if len(unused) > SHOWN else ""
    return f"{'Parameter' if len(unused) == 1 else 'Parameters'} {', '.join(unused[:SHOWN])}{more}"


def _step(process: Process) -> str:
    return f" in step {process.optimizer_steps:,}" if process.optimizer_steps else ""


def _seen(first: Death, raised: list[Death], ended: list[Death]) -> Iterator[str]:
    yield f'{who(first.process)}: "{SAYS}", at {line(first.where)}, after {duration(first.at)}'
    same = [one.process.rank for one in raised[1:] if one.process.rank is not None]
    if same:
        yield f"{listed(sorted(same))} raised the same"
    lost = [one.process.rank for one in ended if one.how in (PARTNER_GONE, GAVE_UP, TOLD_TO_GO)]
    ranks = sorted(one for one in lost if one is not None)
    if ranks:
        yield f"{listed(ranks)} died of it"
    for one in first.process.wrapped[-1:]:
        yield f"DDP was made at {line(one.where)} with find_unused_parameters={one.find_unused_parameters}"


def _remedy(process: Process, *, everywhere: bool) -> Remedy:
    wrapped = process.wrapped[-1] if process.wrapped else None
    at = f" at {short(wrapped.where)}" if wrapped is not None and wrapped.where is not None else ""
    if wrapped is not None and wrapped.find_unused_parameters:
        return Remedy(
            "find_unused_parameters=True is on, so DDP did not find these in what forward returned: return the tensors "
            "that the loss is made of as a tensor, list, tuple or dict, and use all of them."
        )
    give = in_words_of(
        process,
        f"give DDP find_unused_parameters=True{at}",
        lightning='pass Trainer(strategy="ddp_find_unused_parameters_true")',
        transformers="pass TrainingArguments(ddp_find_unused_parameters=True)",
    )
    sometimes = f"{give}, or let the branch that is not taken add 0.0 * its parameters to the loss"
    if everywhere:
        return Remedy(
            f"If they are never used, take them out of the model or freeze them before DDP{at}; else {sometimes}."
        )
    return Remedy(f"They are used in other steps or on other ranks: {sometimes}.")
