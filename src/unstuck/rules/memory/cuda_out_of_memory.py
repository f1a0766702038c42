"""A GPU has no room for what the training asks of it.

## What it looks at
The exception that ended the run, with the numbers that torch puts into it: what was asked for, what was free, what this
process and others on the same GPU hold, what torch has reserved and does not use. And how many batches had gone well.

## Why it happens
The numbers tell which of these it is. Another process holds the memory: somebody else's, one that was never ended, or a
second rank on the same GPU. Or there is room, but in pieces (fragmentation). Or model, gradients, optimizer and
activations of this batch simply need more than there is; where batches went well before, this one is larger, or
something is kept from step to step.

## What to do
Accordingly: end the other process or give each rank its own GPU; have torch use segments that can grow
(`expandable_segments`); smaller batches with accumulated gradients, lower precision, activation checkpointing.

## How sure it is
Not tried on a GPU: this rule was written from the messages of torch and the threads about them. It is sure of what
torch says, and repeats it. Which remedy comes first follows from the numbers; where the message has none, it says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.failures import PINNING, Raised, fatal, raised_at
from ...analysis.torch_errors import Shortage, is_out_of_memory, shortage
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Failure
from ...wording.printable import quoted_line
from ...wording.settings import in_words_of, settings
from ...wording.text import line, many, said, short, size, who
from ..rule import rule

FEW = 1  # batches: whoever fails that early does not fail because something grows


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in fatal(case) if is_out_of_memory(one.failure.message)][:1]:
        numbers = shortage(one.failure.message)
        place = raised_at(one.failure)
        yield case.finding(
            one.process,
            cause=_cause(one, numbers),
            seen=list(_seen(case, one, numbers)),
            remedy=_remedy(case, one, numbers),
            onset_s=one.failure.at,
            where=place,
        )


def _cause(one: Raised, numbers: Shortage) -> str:
    place = raised_at(one.failure)
    asked = f" at {short(place)}" if place is not None else ""
    if numbers.tried is None:
        what = (
            "Memory of the host could not be pinned for" if _while_pinning(one.failure) else "A GPU has no memory for"
        )
        return f"{what} {who(one.process)}{asked}."
    card = "The GPU" if numbers.gpu is None else f"GPU {numbers.gpu}"
    return (
        f"{card} has no room for another {size(numbers.tried)} that {who(one.process)} asks for{asked}{_why(numbers)}."
    )


def _why(numbers: Shortage) -> str:
    total = f" of its {size(numbers.total)}" if numbers.total else ""
    if numbers.total and (numbers.tried or 0) > numbers.total:
        return f": that is more than the {size(numbers.total)} it has"
    first = next(iter(_enough(numbers)), None)
    if first == "others":
        return f": other processes hold {size(sum(numbers.others.values()))}{total}"
    if first == "pieces":
        return f": {size(numbers.reserved or 0)} are reserved and unused, but in pieces that are too small"
    held = numbers.own or numbers.allocated
    return f": this process already holds {size(held)}{total}" if held else ""


def _enough(numbers: Shortage) -> list[str]:
    """What would have sufficed, had it been free: the largest first."""
    if numbers.tried is None or numbers.free is None:
        return []
    held = {"others": sum(numbers.others.values()), "pieces": numbers.reserved or 0}
    return sorted(
        (name for name, count in held.items() if count and numbers.free + count >= numbers.tried),
        key=lambda name: -held[name],
    )


def _while_pinning(failure: Failure) -> bool:
    return "pin memory thread" in failure.message or any(PINNING in frame.file for frame in failure.frames)


def _seen(case: Case, one: Raised, numbers: Shortage) -> Iterator[str]:
    place = raised_at(one.failure)
    words = said(one.failure).partition(". GPU ")[0].partition(" (GPU ")[0]
    yield words + (f", under {line(place)} in {place.function}" if place is not None else "")
    if numbers.total is not None and numbers.free is not None:
        yield f"torch says: {size(numbers.total)} in all, {size(numbers.free)} free"
    if numbers.own is not None:
        yield f"in use by this process: {size(numbers.own)}"
    if numbers.allocated is not None:
        yield f"by torch: {size(numbers.allocated)} allocated, {size(numbers.reserved or 0)} reserved and unused"
    if numbers.allowed is not None:
        yield f"the program has limited itself to {size(numbers.allowed)}"
    yield from (
        f"in use by {_named(case, one.process.node, pid)}: {size(count)}" for pid, count in numbers.others.items()
    )
    if one.loader is not None and one.process is one.main:
        yield f"{many(one.loader.batches, 'batch')} had come from {one.loader.name}"


def _named(case: Case, node: str, pid: int) -> str:
    process = case.process(node, pid)
    return f"another process (pid {pid})" if process is None else f"{who(process)}, of this same run"


def _remedy(case: Case, one: Raised, numbers: Shortage) -> Remedy:
    if numbers.tried is None:
        return _without_numbers(one)
    ways = [_way(case, one.process.node, numbers, name) for name in _enough(numbers)]
    text = " ".join([*(way.text for way in ways), _less(one, otherwise=bool(ways))])
    return Remedy(text, [command for way in ways for command in way.commands])


def _way(case: Case, node: str, numbers: Shortage, name: str) -> Remedy:
    if name == "pieces":
        return Remedy(
            "Let torch's segments grow, so that free pieces are joined.",
            [f"{numbers.setting}=expandable_segments:True {quoted_line(case.run.command)}".strip()],
        )
    pids = sorted(numbers.others)
    ours = [process for pid in pids if (process := case.process(node, pid)) is not None]
    if ours:
        return Remedy(
            f"{who(ours[0]).capitalize()} of this run computes on the same GPU: give each rank its own, with "
            'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before anything is put on a GPU.'
        )
    return Remedy(
        "See whose the other processes are, and end them or take another GPU (in a container, their numbers are those "
        "of the host).",
        ["nvidia-smi", f"ps -fp {','.join(str(pid) for pid in pids)}"],
    )


def _less(one: Raised, *, otherwise: bool) -> str:
    """What makes the training itself need less, with the loader's own numbers."""
    begin = "If that does not suffice, need" if otherwise else "Need"
    batch = one.loader.batch_size if one.loader is not None else None
    if batch is not None and batch > 1:
        how = f"{settings(one.loader, batch_size=batch // 2)} instead of {batch}, with {_accumulated(one)}"
    else:
        how = "shorter or smaller samples"
    text = f"{begin} less: {how}, lower precision (torch.autocast), or activation checkpointing."
    return text + (_after(one.loader) if not otherwise and one.process is one.main else "")


def _accumulated(one: Raised) -> str:
    return in_words_of(
        one.main,
        "gradients accumulated over two batches",
        lightning="Trainer(accumulate_grad_batches=2)",
        transformers="TrainingArguments(gradient_accumulation_steps=2)",
    )


def _after(loader: Loader | None) -> str:
    if loader is None or loader.batches <= FEW:
        return ""
    return (
        f" {many(loader.batches - 1, 'batch')} went well: if torch.cuda.memory_allocated() grows from step to step, "
        "something keeps tensors of earlier steps; if not, this batch is larger than those."
    )


def _without_numbers(one: Raised) -> Remedy:
    if _while_pinning(one.failure):
        return Remedy(
            "Pinning needs memory of the host, not of the GPU: set pin_memory=False, or lower prefetch_factor.",
            ["free -h", "ulimit -l"],
        )
    return Remedy("See who uses the GPU: torch gives no numbers where the driver itself refuses.", ["nvidia-smi"])
