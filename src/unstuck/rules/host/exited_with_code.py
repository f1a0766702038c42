"""The command left with an exit code that says failure, and nothing else tells why.

## What it looks at
The exit status of the command itself. It holds for any command, also one that never imports torch and is not recorded.

## Why it happens
`sys.exit(3)`, `os._exit`, an argument that a program refuses, a shell script whose last command failed. A shell gives
128 + n where signal n ended what it had started: 137 is SIGKILL, 139 SIGSEGV.

## What to do
Read what the command printed last. No uncaught exception was seen, so the program chose the code itself.

## How sure it is
Certain of the code. Where a code above 128 is read as a signal, that is likely: a program may give any code. Silent
where another rule knows more.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, reached
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, ending, signal_name, who
from ..rule import Level, rule

SHELL = 128
LAST_SIGNAL = 64


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("exits",),
    level=Level.ECHO,
    yields_to=(
        Symptom.CRASHED,
        Symptom.STUCK,
        Symptom.STOPPED,
        "rank-crash-cascade",
        "restart-loop",
        "collective-timeout",
        "collectives-out-of-step",
        "stuck-in-user-code",
    ),
    fallback=True,
)
def check(case: Case) -> Iterator[Finding]:
    status = case.run.status
    if status is None or status <= 0 or case.trial is not None:
        return
    ends = [seen.at for seen in case.exits or () if case.is_command(seen.node, seen.pid)]
    killed = SHELL < status <= SHELL + LAST_SIGNAL
    signal = f": a program in it was killed ({signal_name(SHELL - status)})" if killed else ""
    yield case.finding(
        cause=f"The command exited with code {status}{signal}.",
        seen=list(_seen(case, ends)),
        remedy=Remedy(
            "Look at what it printed last: no exception was seen to end it, so it chose this exit code itself."
        ),
        node=case.run.host or None,
        pid=case.run.pid,
        onset_s=min(ends, default=None),
        certainty=Certainty.LIKELY.value if killed else Certainty.CERTAIN.value,
    )


def _seen(case: Case, ends: list[float]) -> Iterator[str]:
    program = case.run.command[0].rpartition("/")[2] if case.run.command else "the command"
    yield f"{program} (pid {case.run.pid}) {ending(case.run.status or 0)}" + (
        f" after {duration(min(ends))}" if ends else ""
    )
    for process in case.mains:
        ended = case.exit_of(process)
        if ended is not None and ended.status and not case.is_command(process.node, process.pid):
            yield f"{who(process)} {ending(ended.status)}"
        newest = process.newest_loader
        if newest is not None:
            yield reached(newest)
            return
