"""Deadlock: only some ranks call a collective, and it waits for the others.

## It means

A barrier, a gather, a reduction, saving of a sharded checkpoint or a forward of the DDP model is under `if rank == 0:`,
or under a condition that only some ranks meet. Collectives pair by their order and by nothing else: the call waits
forever, or it is paired with the next one of the others, and the run hangs, crashes or computes nonsense later, at
another line.

## Fix

Call it on all ranks, and keep only the work of one rank under the condition:

```python
# before
if rank == 0:
    torch.save(state, path)
    dist.barrier()

# after
if rank == 0:
    torch.save(state, path)
dist.barrier()
```

For a forward on one rank use the inner model, which talks to no other rank:

```python
if rank == 0:
    with torch.no_grad():
        output = model.module(batch)
```

Saving FSDP, DeepSpeed or Lightning checkpoints (`trainer.save_checkpoint`) is a collective: call it on all ranks.

## Check it yourself

```sh
pgrep -f train.py | xargs -n 1 py-spy dump --pid       # different lines of your own code on top
grep -nE "rank *== *0|is_main_process|is_global_zero|is_local_main_process" train.py
```

## Not this, if

- the call is part of a validation: [rank-conditional-eval](rank-conditional-eval.md)
- one rank ran out of data: [ddp-uneven-batches](ddp-uneven-batches.md)
- one rank skipped a step: [rank-local-skip-desync](rank-local-skip-desync.md)
- all ranks call it, with different sizes: [collective-shape-mismatch](collective-shape-mismatch.md)

## How sure

Judged from the collectives of every rank in their order, with your line of each, as torch's Flight Recorder has them:
the first that one side calls and the other does not. After a crash in native code, which keeps no record: from the line
it was at, and how far the other ranks had come. Sure about which rank called what. Where the ranks agree again once the
call is left out, or no other rank ever calls that line, it is sure which call is too many; where neither can be seen,
it takes the one of the rank that came less far.

## Seen in

- https://github.com/alan-turing-institute/autocast/pull/386: save_checkpoint under `if trainer.is_global_zero`
- https://github.com/pytorch/pytorch/issues/54059: dist.barrier() hangs after a validation on one rank
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import entry_name, listed, told
from ...analysis.shares import Alone, alone
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import many, short
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    found = alone(case)
    if found is None or found.in_validation:
        return
    first, who = found.parting.first, found.who
    crashed = any(one.death is not None for one in found.stands)
    cause = (
        f"{'only' if crashed else 'Deadlock: only'} {listed(found.parting.ranks)} called {found.call}{_instead(found)}."
    )
    remedies = _remedies(found)
    yield case.finding(
        who,
        cause=cause[:1].upper() + cause[1:],
        seen=list(_seen(found)),
        remedy=remedies[0],
        alternatives=remedies[1:],
        onset_s=first.at,
        where=first.where,
        symptom=(Symptom.CRASHED if crashed else Symptom.STUCK).value,
    )


def _instead(found: Alone) -> str:
    other, others = found.parting.instead, listed(found.parting.others)
    if other is not None:
        place = f" ({short(other.where)})" if other.where is not None else ""
        return f"; {others} called {entry_name(other)}{place} instead"
    ended = all(one.ended for one in found.others)
    return f"; {others} had reached the end of the script" if ended else f"; {others} never did"


def _seen(found: Alone) -> Iterator[str]:
    parting = found.parting
    yield from told(found.stands)
    if parting.first.sequence:
        yield f"all ranks made the same calls up to collective {parting.first.sequence - 1:,}"
    if len(parting.extra) > 1:
        yield f"{many(len(parting.extra), 'collective')} in a row were called by {listed(parting.ranks)} alone"
    if parting.pairs:
        yield f"without it, the next {many(parting.pairs, 'collective')} of all ranks agree again, one number apart"


def _remedies(found: Alone) -> list[Remedy]:
    first, ranks = found.parting.first, found.parting.ranks
    place = short(first.where) if first.where is not None else "that line"
    if found.call == "forward":
        inner = "Use the inner model there: it talks to no other rank."
        return [Remedy(inner, code=["output = model.module(batch)"]), Remedy("Let all ranks make this forward.")]
    if found.known:
        return [
            Remedy(
                f"Find out what kept {listed(found.parting.others)} from {place} this time: a condition, break or "
                "return on a value of one rank."
            ),
            _together(),
        ]
    alone = f"rank == {ranks[0]}" if len(ranks) == 1 else "condition"
    meet = f"only {listed(ranks)} meet{'s' * (len(ranks) == 1)}"
    remedies = [
        Remedy(
            f"Call {found.call} on all ranks: move it out of the condition that {meet}.",
            code=[f"if {alone}:", "    ...  # the work of one rank, such as writing a file", f"{found.call}(...)"],
        )
    ]
    return [*remedies, *_left(found)]


def _left(found: Alone) -> Iterator[Remedy]:
    """In the middle of an epoch, it may also have broken out of the loop."""
    if found.phase is None or found.phase.ended is not None or found.phase.loader is None:
        return
    together = _together()
    text = (
        f"If it comes after the loop: {listed(found.parting.ranks)} left the loop early. Let all ranks leave together."
    )
    yield Remedy(text, code=together.code)


def _together() -> Remedy:
    return Remedy(
        "Let all ranks decide together.",
        code=[
            "stop = torch.tensor(float(condition), device=device)",
            "dist.all_reduce(stop, op=dist.ReduceOp.MAX)",
            "if stop:",
            "    break",
        ],
    )
