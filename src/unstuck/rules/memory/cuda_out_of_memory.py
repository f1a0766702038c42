"""A GPU is out of memory: it has no room for what the training asks of it.

## It means
The numbers in torch's message tell which of these it is. Another process holds the memory: another user's, a leftover
of an earlier run, or a second rank on the same GPU. Or there is room, but in pieces that are too small (fragmentation).
Or model, gradients, optimizer and activations of this batch simply need more than there is. Where batches went well
before, this batch is larger, or something is kept from step to step.

## Fix
Another process: see whose it is, and use a free GPU. Two ranks on one GPU:

```python
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # before anything is put on a GPU
```

Fragmentation ("reserved by PyTorch but unallocated" is large):

```sh
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py
```

Too little for this batch: a smaller batch with accumulated gradients, lower precision, activation checkpointing.

```python
loader = DataLoader(dataset, batch_size=16)              # before: 32
for step, batch in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.bfloat16):   # bfloat16 needs an Ampere GPU or newer
        loss = model(batch) / 2
    loss.backward()
    if step % 2 == 1:
        optimizer.step()
        optimizer.zero_grad()
```

## Check it yourself
```sh
nvidia-smi        # which processes hold the GPU; in a container it cannot name those outside
```

```python
torch.cuda.memory._record_memory_history()               # at the start
torch.cuda.memory._dump_snapshot("memory.pickle")        # where it fails; open it at https://pytorch.org/memory_viz
print(torch.cuda.memory_allocated() >> 20, "MiB")        # every 100 steps: does it grow?
```

## Not this, if
- the graph of every step is kept, so it was bound to happen: [graph-accumulation](graph-accumulation.md)
- two ranks of the run use one GPU, and NCCL refuses: [duplicate-gpu](duplicate-gpu.md)
- the process was killed without a traceback, which is host memory: [main-oom-killed](main-oom-killed.md)
- CUDA was used in a forked worker: [cuda-in-forked-worker](cuda-in-forked-worker.md)

## How sure
Judged from the exception that ended the run, with the numbers that torch puts into it: what was asked for, what was
free, what this process and others on the same GPU hold, what torch has reserved and does not use; and from how many
batches had gone well. Not tried on a GPU: this rule was written from the messages of torch and the threads about them.
It is sure of what torch says, and repeats it. Which remedy comes first follows from the numbers; where the message has
none, it says so.

## Seen in
- https://github.com/rwth-i6/returnn/issues/1649: the crashed run still held 71 GiB when the next one started
- https://github.com/OpenDriveLab/UniAD/issues/180: processes of a stopped training kept the GPU's memory
- https://github.com/pytorch/pytorch/issues/17568: a running loss that kept its graph, until the GPU was full
- https://github.com/jacobgil/pytorch-pruning/issues/16: gone with pin_memory=False
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.failures import PINNING, Raised, fatal, raised_at
from ...analysis.torch_errors import Shortage, is_out_of_memory, shortage
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.process import Failure
from ...wording.printable import quoted_line
from ...wording.settings import in_words_of, settings
from ...wording.text import many, said, size, who
from ..rule import rule

TEXTS = (
    "CUDA out of memory. Tried to allocate",
    "torch.cuda.OutOfMemoryError: CUDA out of memory",
    "torch.OutOfMemoryError: CUDA out of memory",
    "CUDA error: out of memory",
    "HIP out of memory",
    "If reserved but unallocated memory is large try setting",
)

FEW = 1  # batches: a failure that early is not one of growth
MOST = 3  # further remedies

SNAPSHOT = Remedy(
    "Record what holds the memory, and open the file at https://pytorch.org/memory_viz.",
    code=[
        "torch.cuda.memory._record_memory_history()           # at the start",
        'torch.cuda.memory._dump_snapshot("memory.pickle")    # in `except torch.cuda.OutOfMemoryError:`',
    ],
)
CHECKPOINTING = Remedy(
    "Recompute activations instead of keeping them.",
    code=["output = torch.utils.checkpoint.checkpoint(block, input, use_reentrant=False)"],
)


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in fatal(case) if is_out_of_memory(one.failure.message)][:1]:
        numbers = shortage(one.failure.message)
        remedy, *others = _remedies(case, one, numbers)
        yield case.finding(
            one.process,
            cause=_cause(one, numbers),
            seen=list(_seen(case, one, numbers)),
            remedy=remedy,
            alternatives=others[:MOST],
            onset_s=one.failure.at,
            where=raised_at(one.failure),
            saw=_said(one.failure),
        )


def _cause(one: Raised, numbers: Shortage) -> str:
    name = who(one.process)
    if numbers.tried is None:
        if _while_pinning(one.failure):
            return f"Host memory could not be pinned for {name}."
        return f"A GPU is out of memory: {name} could not allocate."
    card = "The GPU" if numbers.gpu is None else f"GPU {numbers.gpu}"
    asked = f"{name} asked for {size(numbers.tried)}"
    if numbers.total and numbers.tried > numbers.total:
        return f"{card} is too small: {asked} at once, it has {size(numbers.total)}."
    return f"{card} is out of memory: {asked}{_why(numbers)}."


def _why(numbers: Shortage) -> str:
    first = next(iter(_enough(numbers)), None)
    if first == "others":
        return f", other processes hold {size(sum(numbers.others.values()))}"
    if first == "pieces":
        return f", {size(numbers.reserved or 0)} are reserved but unused, in pieces that are too small"
    held = numbers.own or numbers.allocated
    return f" and already holds {size(held)}" if held else ""


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
    if numbers.total is not None and numbers.free is not None:
        yield f"torch says: the GPU has {size(numbers.total)}, of which {size(numbers.free)} are free"
    yield from (f"{_named(case, one.process.node, pid)} uses {size(count)}" for pid, count in numbers.others.items())
    if numbers.own is not None:
        yield f"this process uses {size(numbers.own)}"
    if numbers.allocated is not None:
        unused = size(numbers.reserved or 0)
        yield f"torch has allocated {size(numbers.allocated)}, and reserved {unused} that it does not use"
    if numbers.allowed is not None:
        yield f"the program has limited itself to {size(numbers.allowed)}"
    if one.loader is not None and one.process is one.main:
        yield f"it failed after {many(one.loader.batches, 'batch')} of {one.loader.name}"


def _named(case: Case, node: str, pid: int) -> str:
    process = case.process(node, pid)
    if process is None:
        return f"another process (pid {pid}; seen from a container, a pid of the host)"
    return f"{who(process)}, of this same run,"


def _said(failure: Failure) -> str:
    """The message without its numbers, which the evidence has."""
    return said(failure).partition(". GPU ")[0].partition(" (GPU ")[0]


def _remedies(case: Case, one: Raised, numbers: Shortage) -> list[Remedy]:
    """The best first: what by itself would have sufficed, then what needs less."""
    if numbers.tried is None:
        return _without_numbers(one)
    ways = [_way(case, one.process.node, numbers, name) for name in _enough(numbers)]
    grows = one.loader is not None and one.process is one.main and one.loader.batches > FEW
    return [*ways, _smaller(one), *([SNAPSHOT] if grows and not ways else []), _lower_precision(one), CHECKPOINTING]


def _way(case: Case, node: str, numbers: Shortage, name: str) -> Remedy:
    if name == "pieces":
        return Remedy(
            "Let torch's memory segments grow: then free pieces are joined.",
            [f"{numbers.setting}=expandable_segments:True {quoted_line(case.run.command)}".strip()],
        )
    pids = sorted(numbers.others)
    ours = [process for pid in pids if (process := case.process(node, pid)) is not None]
    if ours:
        return Remedy(
            f"Give each rank its own GPU: {who(ours[0])} computes on the same one.",
            code=['torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))    # before anything is put on a GPU'],
        )
    return Remedy(
        "Use another GPU, or stop the other processes if they are leftovers of your own runs.",
        ["nvidia-smi", f"ps -fp {','.join(str(pid) for pid in pids)}"],
    )


def _smaller(one: Raised) -> Remedy:
    """With the loader's own numbers."""
    batch = one.loader.batch_size if one.loader is not None else None
    if batch is None or batch < 2:
        return Remedy("Make the samples smaller or shorter.")
    return Remedy(f"Use {settings(one.loader, batch_size=batch // 2)} (now {batch}), with {_accumulated(one)}.")


def _accumulated(one: Raised) -> str:
    return in_words_of(
        one.main,
        "gradients accumulated over two batches",
        lightning="Trainer(accumulate_grad_batches=2)",
        transformers="TrainingArguments(gradient_accumulation_steps=2)",
    )


def _lower_precision(one: Raised) -> Remedy:
    set_by = in_words_of(
        one.main, "", lightning='Trainer(precision="bf16-mixed")', transformers="TrainingArguments(bf16=True)"
    )
    plain = 'with torch.autocast("cuda", dtype=torch.bfloat16):    # around the forward pass'
    return Remedy("Compute in bfloat16, where the GPU has it (Ampere and newer).", code=[set_by or plain])


def _without_numbers(one: Raised) -> list[Remedy]:
    if _while_pinning(one.failure):
        return [
            Remedy("Use pin_memory=False: pinning needs host memory, not GPU memory.", ["free -h", "ulimit -l"]),
            Remedy("Lower prefetch_factor: fewer batches are pinned at a time."),
        ]
    return [Remedy("See which processes use the GPU: the driver refused, and gives no numbers.", ["nvidia-smi"])]
