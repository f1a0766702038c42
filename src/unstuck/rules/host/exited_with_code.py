r"""The command exited with a code that means failure, and no other rule knows more.

## It means
The program chose this code itself: `sys.exit(3)`, `os._exit`, an argument that it refuses, a shell script whose last
command failed. No uncaught exception was seen. A shell gives 128 + n where a program it had started was killed by
signal n: 137 is SIGKILL, 139 SIGSEGV, 143 SIGTERM.

## Fix
Read what the command printed last. If it printed nothing, find the line that exits:

```sh
grep -rnE 'sys\.exit|os\._exit' --include='*.py' .
bash -x ./train.sh                                   # of a shell script: prints each command before it runs
```

Give the exit a message, so the next run says it by itself:

```python
sys.exit(1)                                          # before
sys.exit(f"no checkpoint in {folder}")               # after: prints it to stderr, and exits with code 1
```

## Check it yourself
```sh
python train.py; echo "exit code $?"
kill -l $((137 - 128))                               # which signal a code above 128 stands for
```

## Not this, if
- an exception ended it: [uncaught-exception](uncaught-exception.md)
- a signal killed it: [main-killed](main-killed.md), [main-oom-killed](main-oom-killed.md)
- it was stopped by a time limit or preemption: [stopped-from-outside](stopped-from-outside.md)
- one rank failed, and the launcher passes its code on: [rank-crash-cascade](rank-crash-cascade.md)

## How sure
Judged from the exit status of the command itself. It holds for any command, also one that never imports torch and is
not recorded. Certain of the code. Where a code above 128 is read as a signal, that is likely: a program may give any
code. Silent where another rule knows more.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, reached
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, signal_name, who
from ..rule import Level, rule

SHELL = 128
LAST_SIGNAL = 64
SEARCH = r"grep -rnE 'sys\.exit|os\._exit' --include='*.py' ."


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
        remedy=_remedy(SHELL - status if killed else 0),
        alternatives=[] if killed else [Remedy("Search the program for the line that exits.", [SEARCH])],
        node=case.run.host or None,
        pid=case.run.pid,
        onset_s=min(ends, default=None),
        certainty=Certainty.LIKELY.value if killed else Certainty.CERTAIN.value,
    )


def _remedy(signal: int) -> Remedy:
    if signal:
        return Remedy(f"Find which of its programs was killed ({signal_name(signal)}): read what it printed last.")
    return Remedy("Read what it printed last: no exception was seen, so the program chose this code itself.")


def _seen(case: Case, ends: list[float]) -> Iterator[str]:
    program = case.run.command[0].rpartition("/")[2] if case.run.command else "the command"
    yield f"{program} (pid {case.run.pid}) ended" + (f" after {duration(min(ends))}" if ends else "")
    for process in case.mains:
        ended = case.exit_of(process)
        if ended is not None and ended.status and not case.is_command(process.node, process.pid):
            yield f"{who(process)} {_ending(ended.status)}"
        newest = process.newest_loader
        if newest is not None:
            yield reached(newest)
            return


def _ending(status: int) -> str:
    return f"was killed ({signal_name(status)})" if status < 0 else f"exited with code {status}"
