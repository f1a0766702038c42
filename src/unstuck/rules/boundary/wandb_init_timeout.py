"""Weights & Biases' init waits for a server that cannot be reached, so training does not begin.

## It means
In online mode `wandb.init` talks to the server before it returns. Without a route to it (a compute node without
internet, a proxy that is not set, a wrong WANDB_BASE_URL) it tries again until `init_timeout`, 90 seconds by default,
is over, and then raises CommError. On a run of several ranks the others wait in a barrier or in their first collective:
their waiting, and its end, is a consequence.

## Fix
Train offline and upload from a machine that has a network, or set the proxy:

```sh
WANDB_MODE=offline python train.py
wandb sync wandb/offline-run-20260101_120000-abcd1234      # later, where the server can be reached
export https_proxy=http://proxy.example:3128               # where the way out is a proxy
```

A longer timeout helps only where the server is slow, not where it is out of reach:

```python
wandb.init(settings=wandb.Settings(init_timeout=300))
```

On several ranks, let only one of them log:

```python
run = wandb.init(project="name") if rank == 0 else None
```

## Check it yourself

```sh
curl -sS -m 5 -o /dev/null https://api.wandb.ai && echo reachable
env | grep -i -e proxy -e WANDB
tail wandb/latest-run/logs/debug-internal.log
```

## Not this, if
- the error says "permission" or 401, 403, 404: the API key, entity or project is wrong
- ranks wait for each other before wandb is called: [rendezvous-peer-missing](rendezvous-peer-missing.md)
- training is done: [wandb-finish-hang](wandb-finish-hang.md)

## How sure
Judged from a main process that is inside `wandb.init` for ten seconds or more, in the recording or on its stack, while
wandb is in online mode; or one that `wandb.init` has ended with a CommError. Certain that wandb.init waits or has timed
out, and for which address. Whether the network, a firewall or the server is to blame cannot be seen from here.

## Seen in
- https://github.com/wandb/wandb/issues/7671: CommError after 90 seconds
- https://github.com/wandb/wandb/issues/8634: a longer timeout did not help
- https://github.com/wandb/wandb/issues/5017: CommError from wandb.init() in a fresh install
- https://github.com/wandb/wandb/issues/7958: wandb.init() of new runs failed for many people at the same hour
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.culprits import culprit, state
from ...analysis.side_work import hung_calls
from ...analysis.stacks import place, user_frame
from ...analysis.standstill import LONG, mains
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Seen, Stack
from ...evidence.loader import Logger
from ...evidence.process import Failure, Process
from ...wording.printable import quoted, quoted_line
from ...wording.text import duration, many, said
from ..rule import Level, rule

TEXTS = (
    "wandb.errors.CommError: Run initialization has timed out after",
    "wandb.errors.errors.CommError: Run initialization has timed out after",
    "Please try increasing the timeout with the `init_timeout` setting",
    "wandb: Network error (ReadTimeout), entering retry loop.",
    "wandb: Network error (ConnectTimeout), entering retry loop.",
)
ERRORS = ("CommError", "wandb.errors.errors.CommError", "wandb.errors.CommError")
FILES = ("wandb/sdk/wandb_init.py", "wandb/sdk/wandb_login.py")


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes|recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        failure = _gave_up(main)
        if failure is not None:
            yield _crashed(case, main, failure)
            return
    for one in hung_calls(case):
        if one.call.name == "wandb.init":
            yield _waits(case, one.main, one.seconds, one.where, [])
            return
    for seen, stack in mains(case):
        found = culprit(case, seen, stack)
        if case.process(seen.node, seen.pid) is None and _begins(stack) and found.seconds >= LONG:
            yield _waits(case, seen, found.seconds, place(user_frame(stack.calls)), [state(found)])
            return


def _gave_up(main: Process) -> Failure | None:
    failure = main.failure
    if failure is None or failure.how != "uncaught":
        return None
    if any(kind in ERRORS for kind, _ in failure.causes):  # one that the user's code has put into its own
        return failure
    inside = any(part in one.file for one in failure.frames for part in FILES)
    return failure if failure.type in ERRORS and inside else None


def _begins(stack: Stack) -> bool:
    return any(part in one.file for one in stack.calls for part in FILES)


def _logger(main: Process | Seen) -> Logger | None:
    known = main.loggers if isinstance(main, Process) else []
    return next((one for one in reversed(known) if one.name == "wandb"), None)


def _server(main: Process | Seen) -> str:
    logger = _logger(main)
    return logger.address if logger is not None and logger.address else "its server"


def _crashed(case: Case, main: Process, failure: Failure) -> Finding:
    call = next((one for one in main.calls if one.name == "wandb.init" and one.failed), None)
    where = call.where if call is not None and call.where is not None else user_line(failure)
    tried = f" within {duration(call.timing.longest)}" if call is not None else ""
    return _finding(
        case,
        main,
        where,
        f"{_who(main)} crashed in wandb.init because {_server(main)} could not be reached{tried}.",
        [],
        Symptom.CRASHED,
        said(failure),
    )


def _waits(case: Case, main: Process | Seen, seconds: float, where: Place | None, told: list[str]) -> Finding:
    logger = _logger(main)
    limit = logger.settings.get("init_timeout") if logger is not None else None
    ends = [f"it will raise CommError after its init_timeout, {duration(limit)}"] if limit else []
    return _finding(
        case,
        main,
        where,
        f"wandb.init() has been waiting {duration(seconds)} for {_server(main)}; {_who(main).lower()} has not started.",
        [*told, *ends],
        Symptom.STUCK,
    )


def _who(main: Process | Seen) -> str:
    return f"Rank {main.rank}" if main.rank is not None else "Training"


def _finding(
    case: Case, main: Process | Seen, where: Place | None, cause: str, told: list[str], symptom: Symptom, saw: str = ""
) -> Finding:
    logger = _logger(main)
    if logger is not None:
        told.append(f"wandb is {logger.mode}: {logger.address or logger.folder}")
    others = len(case.ranks) - 1
    if others > 0:
        told.append(
            f"{many(others, 'other rank')} {'waited' if symptom == Symptom.CRASHED else 'can only wait'} for it"
        )
    command = quoted_line(case.run.command) or "python train.py"
    return case.finding(
        main,
        cause=cause,
        seen=told or ["wandb.init asks its server before it returns"],
        remedy=Remedy(
            "Train offline here, and upload with `wandb sync` from a machine that reaches the server",
            [f"WANDB_MODE=offline {command}"],
        ),
        alternatives=[
            Remedy("Set https_proxy, if the way out of this machine is a proxy; then check", _reach(logger)),
            *([_on_one_rank()] if others > 0 else []),
        ],
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("logger", "wandb"),
        symptom=symptom.value,
        saw=saw,
    )


def _on_one_rank() -> Remedy:
    return Remedy("Call wandb.init on rank 0 only", code=['run = wandb.init(project="name") if rank == 0 else None'])


def _reach(logger: Logger | None) -> list[str]:
    address = logger.address if logger is not None and logger.address else "https://api.wandb.ai"
    return [f"curl -sS -m 5 -o /dev/null {quoted(address)}"]
