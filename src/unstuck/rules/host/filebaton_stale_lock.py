"""torch waits for the build of an extension that nobody is building: the lock of a killed build was left behind.

## What it looks at
A main thread that waits in torch's `FileBaton`, its lock file and how old it is, and whether any process compiles.

## Why it happens
torch puts a file named `lock` beside an extension while it builds it, and others wait until the file is gone. A build
that was killed leaves it there, and every later run waits for ever, without a word.

## What to do
Remove the lock file, or the whole folder of the extension: it is built again.

## How sure it is
Sure that nobody of this run, and no compiler on this machine, works in that folder. On a shared cache another machine
might: look at the file's age.
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


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        stack, lock = main_stack(case, seen.pid), seen.lock
        if stack is None or lock is None or doing(stack) != BUILDING:
            continue
        one = culprit(case, seen, stack)
        if lock.holders or _somebody_builds(case) or (one.seconds < LONG and not _left_over(lock, case)):
            continue
        name = lock.name or "the lock file in the extension's folder"
        yield found(
            one,
            f"{one.name} waits{one.spot} for the build of a torch extension, but nobody is building: {name} was left "
            "behind.",
            [
                f"it has waited for at least {duration(one.seconds)}",
                calls(one),
                *_age(lock, case),
                "no process of the run compiles anything",
            ],
            Remedy(
                "Remove the lock file; torch builds the extension again.",
                [f"rm {quoted(lock.name)}" if lock.name else "rm ~/.cache/torch_extensions/*/*/lock"],
            ),
            case,
            Subject("file", lock.name) if lock.name else None,
        )
        return


def _left_over(lock: Awaited, case: Case) -> bool:
    """Older than everybody who could have made it."""
    return lock.age is not None and lock.age > max(other.age for other in case.processes or ())


def _age(lock: Awaited, case: Case) -> list[str]:
    if lock.age is None:
        return []
    older = ", older than every process of this run" if _left_over(lock, case) else ""
    return [f"the lock file is {duration(lock.age)} old{older}"]


def _somebody_builds(case: Case) -> bool:
    return any(_compiles(one) for one in case.processes or ()) or any(
        BUILDER in call.file and doing(stack) != BUILDING for stack in case.stacks or () for call in stack.calls
    )


def _compiles(seen: Seen) -> bool:
    return seen.name in COMPILERS
