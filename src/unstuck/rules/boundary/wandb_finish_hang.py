"""Weights & Biases' finish() waits for an upload that gets nowhere, so a run that is done does not end.

## What it looks at
A main process that is inside `wandb.finish` (or inside wandb's own code at exit) for ten seconds or more, in the
recording or on its stack; in which mode wandb is; and how much wandb's own process, which does the uploading, sends.

## Why it happens
In online mode `wandb.log` only puts rows into a local file and a queue; `wandb-core`, a process beside, uploads them.
`finish()` waits until all of it has arrived, without a limit: where the network is slow, filtered or gone, for ever.
An exit without `finish()` waits in the same way.

## What to do
Nothing is lost: the rows are in the run's folder. End the run and upload later with `wandb sync FOLDER`. From the next
run on, train with `WANDB_MODE=offline` where the network is not to be trusted, or set a limit with
`wandb.Settings(finish_timeout=60)`.

## How sure it is
Sure that it waits there. It says nothing while wandb-core sends more than a few kilobytes a second: that is an upload
that takes its time.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import culprit, state
from ...analysis.side_work import gets_on, hung_calls, modes
from ...analysis.stacks import place, user_frame
from ...analysis.standstill import LONG, descendants, mains
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Seen, Stack
from ...evidence.process import Process
from ...wording.printable import quoted
from ...wording.text import duration, short, size
from ..rule import Level, rule

FINISHING = ("finish", "_finish", "_on_finish", "teardown", "teardown_atexit")
SERVICE = "wandb-core"


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("processes|recording",),
    level=Level.CAUSE,
    outranks=("logger-blocks-epoch-end",),
)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        open_ = [one for one in hung_calls(case) if one.main is main and one.call.name == "wandb.finish"]
        seen = next((one for one in case.processes or () if one.pid == main.pid), None)
        for one in open_:
            yield _finding(case, main, one.seconds, one.where, _service(case, seen))
            return
    for seen, stack in mains(case):
        stuck = culprit(case, seen, stack)
        waits = case.process(seen.node, seen.pid) is None and _finishes(stack) and stuck.seconds >= LONG
        if waits and not gets_on(case, seen):
            where = place(user_frame(stack.calls))
            yield _finding(case, seen, stuck.seconds, where, [state(stuck), *_service(case, seen)])
            return


def _finishes(stack: Stack) -> bool:
    return any("-packages/wandb/" in one.file and one.name in FINISHING for one in stack.calls)


def _cores(case: Case, seen: Seen) -> list[Seen]:
    return [one for one in descendants(case, seen.pid) if SERVICE in one.name or SERVICE in " ".join(one.command)]


def _service(case: Case, seen: Seen | None) -> list[str]:
    """What the process that uploads did meanwhile."""
    return [
        f"wandb-core (pid {one.pid}), which uploads, wrote {size(one.written)} in the {duration(one.looked)} it was "
        "looked at"
        for one in (_cores(case, seen) if seen is not None else ())
    ]


def _finding(case: Case, main: Process | Seen, seconds: float, where: Place | None, told: list[str]) -> Finding:
    process = main if isinstance(main, Process) else None
    logger = next((one for one in reversed(process.loggers) if one.name == "wandb"), None) if process else None
    server = f" ({logger.address})" if logger is not None and logger.address else ""
    spot = f" at {short(where)}" if where is not None else " at exit"
    rank = f"Rank {main.rank}" if main.rank is not None else "The training"
    folder = logger.folder if logger is not None and logger.folder else "wandb/run-…"
    seen = [f"wandb.finish has not come back for {duration(seconds)}", *told]
    return case.finding(
        main,
        cause=f"{rank} is done, but wandb.finish{spot} has not come back for {duration(seconds)}: it waits until "
        f"everything is uploaded, and the upload to the server{server} does not get on.",
        seen=[*seen, modes(process)] if process is not None and process.loggers else seen,
        remedy=Remedy(
            f"Nothing is lost: the rows are in {folder}. End this process, if it still runs, and upload them later, "
            "from where the server can be reached. For the next run set WANDB_MODE=offline, or a limit: "
            "wandb.init(settings=wandb.Settings(finish_timeout=60)).",
            [f"kill {main.pid}", f"wandb sync {quoted(folder)}"],
        ),
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("logger", "wandb"),
    )
