"""torch waits for an extension build that nothing runs: a killed build left its lock file behind.

## It means
torch puts a file named `lock` into the folder of an extension while it builds it, and other processes wait until the
file is gone. A build that was killed leaves the file there, and every later run waits forever, silently.

## Fix
Remove the lock file, or the extension's whole folder, and start again:

```sh
find "${TORCH_EXTENSIONS_DIR:-$HOME/.cache/torch_extensions}" -name lock -ls      # how old is it?
rm ~/.cache/torch_extensions/py311_cu121/fused_ops/lock
```

The run that waits would go on without it, but then imports an extension that was never built: start it again.

## Check it yourself
```sh
py-spy dump --pid PID | head -5                  # wait (torch/utils/file_baton.py) on top
ps aux | grep -E 'ninja|nvcc|cc1plus'            # nothing compiles, on any machine that shares the cache
```

## Not this, if
- a compiler runs: the build is at work, and may take minutes
- it waits for a lock of Hugging Face's cache: [hf-filelock](hf-filelock.md)
- torch.compile compiles for the first time: that is warm-up, and ends by itself

## How sure
Judged from a main thread that waits in torch's `FileBaton`, its lock file and how old that is, and whether any process
compiles. Sure that no process of this run, and no compiler on this machine, works in that folder. On a shared cache
another machine might: look at the file's age.

## Seen in
- https://github.com/pytorch/pytorch/issues/189245: a killed compilation leaves the lock, and every later run waits
- https://github.com/OpenRLHF/OpenRLHF/issues/208: stuck at "as PyTorch extensions root..." on several nodes
- https://github.com/NVlabs/nvdiffrec/issues/39: removing the lock file by hand helps
- https://github.com/openvinotoolkit/nncf/issues/1033: an import that hangs, by lock files in ~/.cache/torch_extensions
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found
from ...analysis.stacks import BUILDING, doing
from ...analysis.standstill import LONG, main_stack
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Awaited, Seen
from ...wording.printable import quoted
from ...wording.text import duration
from ..rule import rule

TEXTS = ("as PyTorch extensions root...", "Lock file exists in build directory", "Waited on lock file")

COMPILERS = (
    "ninja",
    "nvcc",
    "cicc",
    "ptxas",
    "cc",
    "gcc",
    "g++",
    "c++",
    "cc1",
    "cc1plus",
    "clang",
    "clang++",
    "as",
    "ld",
    "hipcc",
)
BUILDER = "torch/utils/cpp_extension.py"
FIND = 'find "${TORCH_EXTENSIONS_DIR:-$HOME/.cache/torch_extensions}" -name lock -ls'


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        stack, lock = main_stack(case, seen.pid), seen.lock
        if stack is None or lock is None or doing(stack) != BUILDING:
            continue
        one = culprit(case, seen, stack)
        if lock.holders or _is_building(case) or (one.seconds < LONG and not _left_over(lock, case)):
            continue
        yield found(
            one,
            f"{one.name} is waiting for an extension build that nothing runs: its lock file was left behind.",
            [
                *([f"lock file: {lock.name}"] if lock.name else []),
                *_age(lock, case),
                f"no progress for at least {duration(one.seconds)}, and no process of the run compiles anything",
                calls(one),
            ],
            Remedy(
                "Remove the lock file and start again: torch then builds the extension.",
                [f"rm {quoted(lock.name)}" if lock.name else FIND],
            ),
            case,
            Subject("file", lock.name) if lock.name else None,
        )
        return


def _left_over(lock: Awaited, case: Case) -> bool:
    """Older than every process that could have made it."""
    return lock.age is not None and lock.age > max(other.age for other in case.processes or ())


def _age(lock: Awaited, case: Case) -> list[str]:
    if lock.age is None:
        return []
    older = ", older than every process of this run" if _left_over(lock, case) else ""
    return [f"the lock file is {duration(lock.age)} old{older}"]


def _is_building(case: Case) -> bool:
    return any(_compiles(seen) for seen in case.processes or ()) or any(
        BUILDER in call.file and doing(stack) != BUILDING for stack in case.stacks or () for call in stack.calls
    )


def _compiles(seen: Seen) -> bool:
    return seen.name in COMPILERS
