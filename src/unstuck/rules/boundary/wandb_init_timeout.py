"""Weights & Biases' init waits for a server that cannot be reached, so training does not begin.

## What it looks at
A main process that is inside `wandb.init` for ten seconds or more, in the recording or on its stack, while wandb is in
online mode; or one that `wandb.init` has ended with a CommError.

## Why it happens
In online mode `wandb.init` talks to the server before it returns. Without a route to it (a compute node without
internet, a proxy that is not set, a wrong WANDB_BASE_URL) it tries again until `init_timeout`, 90 seconds by default,
is over, and then raises. On a run of several ranks the others wait meanwhile, in a barrier or in their first
collective: their waiting, and what becomes of it, is a consequence.

## What to do
Train offline and upload from a machine that has a network: `WANDB_MODE=offline`, then `wandb sync`. Where a proxy is
needed, set `https_proxy`. A longer `init_timeout` only helps where the server is slow, not where it is out of reach.

## How sure it is
Sure that wandb.init waits or has given up, and for which address. Whether the network, a firewall or the server is to
blame cannot be seen from here.
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
from ...wording.text import duration, many, said, short
from ..rule import Level, rule

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
    return f"the server at {logger.address}" if logger is not None and logger.address else "its server"


def _crashed(case: Case, main: Process, failure: Failure) -> Finding:
    call = next((one for one in main.calls if one.name == "wandb.init" and one.failed), None)
    where = call.where if call is not None and call.where is not None else user_line(failure)
    tried = f" after {duration(call.timing.longest)}" if call is not None else ""
    return _finding(
        case,
        main,
        where,
        f"{_who(main)} ended because wandb.init at {short(where)} could not reach {_server(main)}: it gave up{tried}.",
        [said(failure)],
        Symptom.CRASHED,
    )


def _waits(case: Case, main: Process | Seen, seconds: float, where: Place | None, told: list[str]) -> Finding:
    logger = _logger(main)
    limit = logger.settings.get("init_timeout") if logger is not None else None
    ends = f" It gives up after its init_timeout, {duration(limit)}, with a CommError." if limit else ""
    return _finding(
        case,
        main,
        where,
        f"{_who(main)} has not begun to train: wandb.init at {short(where)} has been waiting for {_server(main)} for "
        f"{duration(seconds)}.{ends}",
        [f"wandb.init has not come back for {duration(seconds)}", *told],
        Symptom.STUCK,
    )


def _who(main: Process | Seen) -> str:
    return f"Rank {main.rank}" if main.rank is not None else "The run"


def _finding(
    case: Case, main: Process | Seen, where: Place | None, cause: str, told: list[str], symptom: Symptom
) -> Finding:
    logger = _logger(main)
    if logger is not None:
        told.append(f"wandb is {logger.mode}: {logger.address or logger.folder}")
    others = len(case.ranks) - 1
    if others > 0:
        waits = "had to wait for it" if symptom == Symptom.CRASHED else "can only wait for it meanwhile"
        told.append(f"{many(others, 'other rank')} {waits}")
    alone = " Let only rank 0 call wandb.init." if others > 0 else ""
    command = quoted_line(case.run.command) or "COMMAND"
    return case.finding(
        main,
        cause=cause,
        seen=told,
        remedy=Remedy(
            "Train offline here, and upload with `wandb sync` from a machine that reaches the server. If a proxy is "
            f"needed, set https_proxy.{alone}",
            [f"WANDB_MODE=offline {command}", *_reach(logger)],
        ),
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("logger", "wandb"),
        symptom=symptom.value,
    )


def _reach(logger: Logger | None) -> list[str]:
    return [f"curl -sS -m 5 -o /dev/null {quoted(logger.address)}"] if logger is not None and logger.address else []
