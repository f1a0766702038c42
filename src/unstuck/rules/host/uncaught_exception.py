"""An exception that was not caught ended the training, and no more precise rule explains it.

## It means
This is the general case: the message and the line are the program's own. What unstuck adds is which rank raised first,
where the loop was, and the sample if the exception came from fetching one.

## Fix
Start at the named line. If several ranks ended, look at the first: the others usually only lost their partner. Stop
there in the debugger:

```sh
python -m pdb -c continue train.py         # then: p batch.shape, up, down
```

An error of a CUDA kernel (device-side assert, illegal memory access, launch failure) is reported late, at another line
than the one that failed. Run it again, so each kernel is checked right after its launch:

```sh
CUDA_LAUNCH_BLOCKING=1 python train.py
```

A device-side assert is mostly a label or an index out of range. On the CPU the same batch raises at its own line:

```python
assert 0 <= labels.min() and labels.max() < num_classes, (labels.min(), labels.max())
```

## Check it yourself
Read the traceback from the bottom: the last line is the error, the line above it the place. With several causes
("During handling of the above exception", "The above exception was the direct cause") the first traceback tells more.

```sh
TORCH_SHOW_CPP_STACKTRACES=1 python train.py
```

## Not this, if
- a worker raised while it loaded a sample: [worker-python-exception](worker-python-exception.md)
- a worker was killed: [worker-oom-killed](worker-oom-killed.md), [worker-segfault](worker-segfault.md)
- several ranks failed, one after the other: [rank-crash-cascade](rank-crash-cascade.md)
- the GPU is out of memory: [cuda-out-of-memory](cuda-out-of-memory.md)
- a collective timed out: [collective-timeout](collective-timeout.md)

## How sure
Judged from the exception that ended a main process, written down on its way out: type, message, frames, what the
process was doing, and the batch it had last. Certain that this exception ended the process; why the line failed is not
known. Of a CUDA error that is reported late, the line is only *likely*; with `CUDA_LAUNCH_BLOCKING=1` torch leaves its
warning out, and it is certain. What torch, CUDA and NCCL say is known from public threads and their sources: it was not
tried on a GPU.

## Seen in
- https://github.com/QwenLM/Qwen3/issues/368: "device-side assert triggered"; CUDA_LAUNCH_BLOCKING=1 finds the line
- https://github.com/taishan1994/qlora-chinese-LLM/issues/3: an index out of range, a changed number of classes
- https://github.com/pytorch/pytorch/pull/132057: about the note that the stack trace "might be incorrect"
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, reached, user_line
from ...analysis.failures import CARRIED, OWN_DECISION, paths_of
from ...analysis.passes import EMPTY, raised_after_nothing
from ...analysis.torch_errors import DEVICE_ASSERT, REMOTE_ERROR, again, errors_of, late, warned, with_setting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import LoaderState
from ...evidence.process import Failure, Process
from ...wording.printable import quoted_line
from ...wording.text import line, said
from ..rule import Level, rule

TEXTS = (
    "CUDA error: device-side assert triggered",
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: unspecified launch failure",
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "Expected all tensors to be on the same device",
    "element 0 of tensors does not require grad and does not have a grad_fn",
    "has been modified by an inplace operation",
    "mat1 and mat2 shapes cannot be multiplied",
    "must match the size of tensor",
)

MOST, NUMBERS = 20, 2  # words and numbers of a cause
SHAPES = Remedy(
    "Print the shapes of both tensors at that line: they do not fit each other.",
    code=["print(a.shape, b.shape)"],
)
# By what torch's own messages say.
HINTS = {
    "must match the size of tensor": SHAPES,
    "shapes cannot be multiplied": SHAPES,
    "Expected all tensors to be on the same device": Remedy(
        "Move model and batch to one device before that line.", code=["batch = batch.to(device)"]
    ),
    "does not require grad and does not have a grad_fn": Remedy(
        "Find what cut the graph: detach(), .item(), torch.no_grad(), or parameters that are all frozen."
    ),
    "has been modified by an inplace operation": Remedy(
        "Find the in-place operation: anomaly detection names the forward call.",
        code=["torch.autograd.set_detect_anomaly(True)    # slow: for this search only"],
    ),
}
LABELS = Remedy(
    "Check that labels are below the number of classes, and indices below the size they index.",
    code=["assert 0 <= labels.min() and labels.max() < num_classes"],
)


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.ECHO)
def check(case: Case) -> Iterator[Finding]:
    failed = [one for one in case.recording or () if one.role in ("main", "launcher") and _crashed(one)]
    ranks = [one for one in failed if one.role == "main"] or failed
    for process in sorted(ranks, key=lambda one: one.failure.at if one.failure else 0.0)[:1]:
        failure = process.failure
        if failure is None:
            continue
        remedy, *others = _remedies(case, process, failure)
        cause = _cause(process, failure)
        yield case.finding(
            process,
            cause=cause,
            seen=list(_seen(process, len(ranks))),
            remedy=remedy,
            alternatives=others,
            onset_s=failure.at,
            where=user_line(failure),
            subject=None if failure.index is None else Subject("sample", str(failure.index)),
            certainty=Certainty.LIKELY.value if late(failure) is not None else "",
            because_of=EMPTY if raised_after_nothing(process, failure) is not None else None,
            saw="" if _first_line(failure.message) in cause else said(failure),
        )


def _cause(process: Process, failure: Failure) -> str:
    name, error = _name(process), late(failure)
    if error is not None:
        return f"{name} raised {failure.type}: CUDA error: {error.error}; the line shown may be the wrong one."
    kind, message = _raised(failure)
    raised = f"{name} raised {kind}{_stage(process)}"
    return f"{raised}: {_shortened(message, MOST - len(raised.split()))}" if message.strip() else f"{raised}."


def _name(process: Process) -> str:
    if process.rank is not None:
        return f"Rank {process.rank}"
    return "The launcher" if process.role == "launcher" else "The training"


def _raised(failure: Failure) -> tuple[str, str]:
    """What was raised first, where torch carries the exception of a worker or a thread along in its text."""
    carried = failure.message.partition(CARRIED)[2]
    for text in reversed(carried.splitlines()):
        kind, colon, message = text.partition(": ")
        if colon and kind.rpartition(".")[2] == failure.type:
            return failure.type, message
    return failure.type, failure.message


def _shortened(message: str, most: int) -> str:
    """Its first words, with at most two numbers: the whole of it is shown elsewhere."""
    words: list[str] = []
    numbers = 0
    for word in message.split():
        numbers += any(letter.isdigit() for letter in word)
        if len(words) == most or numbers > NUMBERS:
            return f"{' '.join(words).rstrip('.,:;')}…"
        words.append(word)
    return f"{' '.join(words).rstrip('.,:;')}."


def _crashed(process: Process) -> bool:
    return (
        process.failure is not None and process.failure.how == "uncaught" and process.failure.type not in OWN_DECISION
    )


def _first_line(message: str) -> str:
    lines = message.strip().splitlines()
    return lines[0][:200] if lines else "no message"


def _stage(process: Process) -> str:
    """The stage that failed, where it is one of the loader's own."""
    return " while the loader started" if _starting(process) else ""


def _starting(process: Process) -> bool:
    newest = process.newest_loader
    return newest is not None and newest.now == LoaderState.STARTING and bool(newest.failed)


def _seen(process: Process, ranks: int) -> Iterator[str]:
    failure = process.failure
    if failure is None:
        return
    place = user_line(failure)
    if place is not None:
        delayed = ": it was reported there, later than it failed" if late(failure) is not None else ""
        yield f"raised at {line(place)} in {place.function}{delayed}"
    yield from (f"raised after {kind}: {_first_line(message)}" for kind, message in failure.causes[-1:])
    if failure.caught:
        yield "the program caught it and called sys.exit() with a code"
    yield from warned(failure)
    yield from (f"NCCL's last error: {one.last_error}" for one in errors_of(failure)[:1] if one.last_error)
    if failure.index is not None:
        yield f"sample {failure.index} was being fetched"
    yield from (f"file open or named there: {path}" for path in paths_of(failure)[:2])
    newest = process.newest_loader
    if newest is not None:
        yield reached(newest)
    if ranks > 1:
        yield f"{ranks} processes raised an exception; this was the first"


def _remedies(case: Case, process: Process, failure: Failure) -> list[Remedy]:
    error = late(failure)
    if error is not None:
        return [again(case, error), *([LABELS] if error.kind == DEVICE_ASSERT else [])]
    for other in errors_of(failure)[:1]:
        if other.kind == REMOTE_ERROR:
            return [Remedy("Read the logs of the other ranks and nodes first: one has ended or cannot be reached.")]
        if other.details:
            setting = with_setting(case, other.details)
            return [
                Remedy(f"Run it again with {other.details}: NCCL then prints which call failed, and why.", [setting])
            ]
    hint = next((remedy for words, remedy in HINTS.items() if words in failure.message), None)
    return [*([hint] if hint is not None else []), *_start(process, failure), *_debugger(case)]


def _start(process: Process, failure: Failure) -> Iterator[Remedy]:
    if _starting(process):
        yield Remedy("Check what the loader's workers are given: dataset, sampler, collate_fn, worker_init_fn.")
        yield Remedy("Try the same loader with num_workers=0.")
    elif paths_of(failure):
        yield Remedy(f"Start at that line, with the file {paths_of(failure)[0]}.")
    elif failure.index is not None:
        yield Remedy(f"Start at that line, with sample {failure.index}.")
    elif failure.caught:
        yield Remedy("Start at that line; the program caught the exception, so it may have printed no traceback.")
    else:
        yield Remedy("Start at that line; the traceback on the screen shows how it was reached.")


def _debugger(case: Case) -> Iterator[Remedy]:
    """For one process that runs a script: several have no terminal of their own."""
    program, *script = case.run.command or [""]
    if len(case.mains) == 1 and program.rpartition("/")[2].startswith("python") and script[:1] and script[0][:1] != "-":
        command = quoted_line([program, "-m", "pdb", "-c", "continue", *script])
        yield Remedy("Stop there in the debugger.", [command])
