"""A call into a logger or to a server does not come back, and the training waits for it.

## What it looks at
Calls into wandb, TensorBoard and MLflow and plain HTTP requests that had begun and not ended when the run was looked
at: for how long, by the line that makes them, and what they took before. Whether the process computes or sends
meanwhile.

## Why it happens
The server does not answer, and the call has no time limit: `urllib.request.urlopen` and `requests` wait for ever unless
they are told otherwise. The call is made in the training's own thread, so nothing else happens until it returns. On a
run of several ranks, all others wait in their next collective for the rank that logs.

## What to do
Give every request a time limit, or hand it to a thread (`unstuck.nonblocking`). Then look at the server.

## How sure it is
Sure that the call has not come back: it began at the time that is named, and its process neither computes nor sends. A
request is told after a minute, as *waiting*: whether its server is dead or only slow cannot be seen from here. A
logger's own call only hands values over and waits for no answer: it is told as *stuck*, once it takes far longer than
it ever did. `wandb.init` and `wandb.finish` have rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.side_work import HungCall, hung_calls, library, modes
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import LoaderState
from ...wording.text import duration
from ..rule import rule

OWN_RULES = ("wandb.init", "wandb.finish")
PLACES = {
    LoaderState.IN_BODY: "inside a training step",
    LoaderState.BETWEEN_PASSES: "between two epochs",
    LoaderState.ABOUT_TO_ASK: "before the first epoch",
}


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("recording",), outranks=("rank0-only-collective",))
def check(case: Case) -> Iterator[Finding]:
    for hung in hung_calls(case):
        loader = hung.main.newest_loader
        if loader is not None and loader.now in PLACES and hung.call.name not in OWN_RULES:
            yield _finding(case, hung, PLACES[loader.now])
            return


def _finding(case: Case, hung: HungCall, place: str) -> Finding:
    who = f"Rank {hung.main.rank}" if hung.main.rank is not None else "The training"
    longest = hung.call.timing.longest if hung.call.timing.count else None
    return case.finding(
        hung.main,
        cause=f"{who} has waited {duration(hung.seconds)} for {hung.call.name}{hung.spot}, {place}.",
        seen=[
            f"{hung.call.name} began {duration(hung.seconds)} ago and has not come back"
            + (f"; before, it took {duration(longest)} at most" if longest is not None else ""),
            *([modes(hung.main)] if hung.main.loggers else []),
        ],
        remedy=Remedy(
            "Pass a time limit (timeout=5), or hand the call to unstuck.nonblocking(logger), which never holds the "
            "training up for longer than its limit. Then look at the server: it does not answer."
        ),
        onset_s=case.stall.since if case.stall is not None else None,
        where=hung.where,
        subject=Subject("logger", library(hung.call.name) or hung.call.name),
        symptom=hung.symptom.value,
    )
