"""Deadlock: one rank ran out of data, and the other ranks wait for it forever.

## It means

Every backward of DDP waits for the same backward of all other ranks. A rank that has one batch fewer never calls it:
files or rows that do not divide evenly, a filter, shards of different sizes, a sampler of your own without padding. The
shorter rank goes on to a barrier, to validation, or to the end of the script; in the last case the others crash with a
closed connection. With NCCL the GPUs show 100 % while nothing moves.

## Fix

Give every rank the same number of batches:

```python
# before: every rank slices for itself, and the slices differ in length
loader = DataLoader(TensorDataset(x[rank::world]), batch_size=4)

# after: pads to the same number on every rank
sampler = DistributedSampler(whole_dataset)
loader = DataLoader(whole_dataset, batch_size=4, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
```

Or stop all ranks at the shortest one. For a stream whose length is not known, let the ranks agree before every batch:

```python
for batch in itertools.islice(loader, steps):  # steps: the same number on every rank
    ...


def together(loader, device):
    batches = iter(loader)
    while True:
        batch = next(batches, None)
        left = torch.tensor(float(batch is not None), device=device)
        dist.all_reduce(left, op=dist.ReduceOp.MIN)  # all stop where the first one has no more
        if not left:
            return
        yield batch
```

Or let a rank without data answer for the others. This works for DDP, not for FSDP, and only for the collectives of the
model and the optimizer, not for your own:

```python
from torch.distributed.algorithms.join import Join

with Join([model]):
    for batch in loader:
        ...
```

## Check it yourself

```python
lengths = [None] * dist.get_world_size()
dist.all_gather_object(lengths, len(loader))  # for a stream: count the batches of one epoch instead
print(lengths)  # all equal, or this will deadlock
```

```sh
pgrep -f train.py | xargs -n 1 py-spy dump --pid   # one rank in backward, another one behind its loop
```

## Not this, if

- accelerate prepared the loader: [accelerate-uneven-batch-sampler](accelerate-uneven-batch-sampler.md)
- the batches are equal, but one rank skipped a step: [rank-local-skip-desync](rank-local-skip-desync.md)
- only some ranks call a barrier, a gather or a save: [rank0-only-collective](rank0-only-collective.md)
- one rank still waits for a sample: [silent-rank-data-stall](silent-rank-data-stall.md)
- a rank has no shard at all: [wds-empty-rank-hang](wds-empty-rank-hang.md)

## How sure

Judged from how many batches each rank got from the same loader (made at the same line), epoch by epoch, and from which
ranks are inside an epoch and wait in a collective there, and which have finished theirs. While the run goes on: from
the lengths of these loaders, where a model is wrapped in DDP. Where nothing is recorded: from the stacks of ranks that
Lightning or transformers' Trainer runs. Certain where a rank waits with a batch that the other never had. By stacks
alone it is likely; it is silent there if your own code calls the collective, which may do so on one rank only. Before
that, different lengths are only a warning: a loop that stops all ranks at the same count avoids the deadlock. Silent
for loops inside `Join`, once an epoch has ended unevenly and the run went on, and where ranks are seen to exchange
single numbers, which may be an agreement.

## Seen in

- https://github.com/pytorch/pytorch/issues/33148: ranks with more batches hang; why Join was made
- https://github.com/Lightning-AI/pytorch-lightning/issues/20404: sharded data of uneven length under Lightning
- https://github.com/k2-fsa/snowfall/issues/152: the node with the most utterances hangs at the end
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed, told
from ...analysis.shares import Apart, Share, lengths_apart, uneven
from ...analysis.side_work import hook_of
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import quoted_line
from ...wording.settings import framework_of, in_words_of
from ...wording.text import duration, many, short
from ..rule import Level, rule
from ._trainer_stacks import Parted, parted_in_trainer

DDP = "DistributedDataParallel"


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.CERTAIN,
    needs=("recording|stacks",),
    level=Level.GENERAL,
    outranks=("collective-shape-mismatch", "straggler-rank"),
    predicts=True,
)
def check(case: Case) -> Iterator[Finding]:
    apart = uneven(case)
    if apart is not None:
        yield _stuck(case, apart)
        return
    seen = parted_in_trainer(case) if not case.ranks else None
    if seen is not None:
        yield _seems(case, seen)
        return
    for shares in lengths_apart(case):
        yield _will_be(case, shares)
        return


def _stuck(case: Case, apart: Apart) -> Finding:
    short_one, first = apart.one, apart.first
    died = all(one.stand.death is not None for one in apart.behind)
    waits = "crashed" if died else "waits" if len(apart.behind) == 1 else "wait"
    cause = (
        f"{'' if died else 'Deadlock: '}{listed([short_one.rank])} {_had(short_one)}; "
        f"{listed(one.rank for one in apart.behind)} {waits} in {first.stand.call or 'its own code'} "
        f"with batch {apart.batch:,}."
    )
    remedies = _remedies([short_one, *apart.behind])
    return case.finding(
        short_one.stand,
        cause=cause[:1].upper() + cause[1:],
        seen=[*_counts([short_one, *apart.behind]), *_went(short_one), *told(apart.stands)],
        remedy=remedies[0],
        alternatives=remedies[1:],
        rank=short_one.rank,
        onset_s=_ended_at(short_one),
        where=apart.first.stand.where,
        subject=Subject("loader", short_one.loader.name),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _seems(case: Case, parted: Parted) -> Finding:
    """Without a recording the batches are not counted: by the stacks alone."""
    few, first = parted.through[0], parted.inside[0]
    ranks, rest = listed(one.rank for one in parted.through), listed(one.rank for one in parted.inside)
    waits = "waits" if len(parted.through) == 1 else "wait"
    return case.finding(
        few,
        cause=f"Deadlock: {ranks} finished the epoch and {waits} in {parted.after}; {rest} "
        f"{'waits' if len(parted.inside) == 1 else 'wait'} in {first.call} with batches left.",
        seen=[
            *told([*parted.through, *parted.inside]),
            "the trainer makes these calls on every rank, and no code of yours decides about them",
            f"no progress on any rank for {duration(parted.seconds)}",
        ],
        remedy=Remedy(
            "Give every rank the same number of batches: as many files and samples, and none that one rank skips alone."
        ),
        alternatives=[
            Remedy(
                "Record the run: it then shows the batches of every rank, and the files that were not read.",
                [f"unstuck run -- {quoted_line(case.run.command) or 'COMMAND'}"],
            )
        ],
        where=few.where,
        certainty=Certainty.LIKELY.value,
    )


def _had(one: Share) -> str:
    batches = one.loader.batches
    return f"ran out of data after {many(batches, 'batch')}" if batches else "got no data at all"


def _went(one: Share) -> Iterator[str]:
    """A hook of the trainer, which the line alone does not show."""
    hook = hook_of(one.stand) if one.stand.waits and not one.stand.ended else None
    if hook is not None:
        yield f"rank {one.rank} went on to {one.stand.spot}, in {hook.name}"


def _counts(shares: list[Share]) -> Iterator[str]:
    """A line for each number of batches."""
    alike: dict[tuple[int, int, bool, int | None], list[int]] = {}
    for one in shares:
        key = one.loader.pass_batches, one.loader.batches, one.inside, one.loader.length
        alike.setdefault(key, []).append(one.rank)
    for (batches, in_all, inside, length), ranks in list(alike.items())[:4]:
        known = f", len(loader) is {length:,}" if length is not None else ""
        total = f", {in_all:,} in total" if in_all != batches else ""
        state = "inside the epoch" if inside else "epoch finished"
        yield f"{listed(ranks)}: {many(batches, 'batch')} ({state}){total}{known}"
    yield f"loader: {shares[0].loader.name}"


def _ended_at(one: Share) -> float | None:
    newest = one.newest
    return newest.ended if newest is not None else None


def _remedies(shares: list[Share]) -> list[Remedy]:
    """A sampler that pads, a length that all agree on, or Join."""
    loader = shares[0].loader
    model = next((each for one in shares for each in one.process.wrapped if each.kind == DDP), None)
    lengths = [one.loader.length for one in shares if one.loader.length is not None]
    # A length that a stream announces may be another than it has; what the short one had is known once it has finished.
    lengths += [shares[0].loader.pass_batches] if shares[0].through and shares[0].loader.pass_batches else []
    steps = f"{min(lengths)}" if lengths else "STEPS"
    found = []
    if not shares[0].loader.batches:
        found.append(Remedy("Give every rank data: at least as many files or shards as there are ranks."))
    elif not loader.iterable and loader.batch_size is None:
        found.append(
            Remedy(
                "Let the batch sampler cut its batches to a multiple of the ranks before each takes its own.",
                code=["batches = batches[: len(batches) // world * world][rank::world]"],
            )
        )
    elif not loader.iterable and "DistributedSampler" not in (loader.sampler or ""):
        split = "split the whole dataset with DistributedSampler, which pads."
        code = f"loader = DataLoader(whole_dataset, batch_size={loader.batch_size}, sampler=sampler)"
        found.append(
            Remedy(
                f"Give every rank the same number of batches: {split}",
                code=["sampler = DistributedSampler(whole_dataset)", code],
            )
        )
    if shares[0].loader.batches:
        shortest = "Stop all ranks at the shortest one, with the same number everywhere."
        found.append(Remedy(shortest, code=[_at_the_shortest(shares[0], steps)]))
    if framework_of(shares[0].process) is None and model is not None:  # a trainer's loop cannot be put into anything
        made = f"  # the model of {short(model.where)}" if model.where is not None else ""
        found.append(
            Remedy(
                "Wrap the loop in Join, so a rank without data still answers the others (DDP only, not FSDP).",
                code=["from torch.distributed.algorithms.join import Join", f"with Join([model]):{made}"],
            )
        )
    return found


def _at_the_shortest(one: Share, steps: str) -> str:
    return in_words_of(
        one.process,
        f"for batch in itertools.islice(loader, {steps}):",
        lightning=f"Trainer(limit_train_batches={steps})",
        transformers="TrainingArguments(max_steps=STEPS)",
    )


def _will_be(case: Case, shares: list[Share]) -> Finding:
    first, last = shares[0], shares[-1]
    name, remedies = first.loader.name, _remedies(shares)
    return case.finding(
        first.stand,
        cause=f"The epoch will end in a deadlock: rank {first.rank} will get {first.loader.length:,} batches, "
        f"rank {last.rank} {last.loader.length:,}.",
        seen=[f"len(loader) is {one.loader.length:,} on rank {one.rank}" for one in shares[:4]]
        + [f"loader: {name}", "every rank trains a DistributedDataParallel model on it, outside Join"],
        remedy=remedies[0],
        alternatives=remedies[1:],
        rank=first.rank,
        where=first.loader.created,
        subject=Subject("loader", name),
        symptom=Symptom.WRONG.value,
    )
