"""A call into a logger or to a server does not return, and training waits for it.

## It means
The server does not answer, and the call has no timeout: `urllib.request.urlopen` and `requests` wait forever unless
they are told otherwise. The call is made in the training's own thread, so nothing else happens until it returns. On a
run of several ranks, all others wait in their next collective for the rank that logs.

## Fix
Give every request a timeout, and do not let a failed log line stop the training:

```python
requests.post(url, json=values)  # before: waits forever
```

```python
try:  # after
    requests.post(url, json=values, timeout=5)
except requests.RequestException as error:
    print(f"not logged: {error}")
```

The same for `urllib.request.urlopen(url, data, timeout=5)`. A logger without a timeout of its own can be called from a
background thread:

```python
logs = ThreadPoolExecutor(max_workers=1)  # once
logs.submit(logger.log, values)
```

## Check it yourself

```sh
curl -sS -m 5 -o /dev/null http://HOST:PORT            # does the server answer?
py-spy dump --pid PID                                  # is the main thread in the request?
```

## Not this, if
- training has not begun, or is done: [wandb-init-timeout](wandb-init-timeout.md),
  [wandb-finish-hang](wandb-finish-hang.md)
- the call returns, but takes long: [logger-blocks-epoch-end](logger-blocks-epoch-end.md),
  [logger-in-hot-loop](logger-in-hot-loop.md)
- the other ranks wait for a collective that one rank calls alone: [rank0-only-collective](rank0-only-collective.md)
- the training waits while it prints: [stdout-pipe-full](stdout-pipe-full.md)

## How sure
Judged from calls into wandb, TensorBoard and MLflow and plain HTTP requests that had begun and not ended when the run
was looked at: for how long, by the line that makes them, and what they took before; and whether the process computes or
sends at that time. Certain that the call has not returned, and that its process neither computes nor sends. A request
is reported after a minute, as *waiting*: whether its server is dead or only slow cannot be seen from here. A logger's
own call only queues values and waits for no answer: it is reported as *stuck*, once it takes far longer than it ever
did. `wandb.init` and `wandb.finish` have rules of their own.

## Seen in
- https://github.com/sentinelsat/sentinelsat/issues/256: session.post without a timeout blocked forever
- https://github.com/logzio/logzio-python-handler/pull/39: a log handler's requests.post never returned
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.side_work import HungCall, hung_calls, library, modes
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import HTTP, LoaderState
from ...wording.printable import quoted
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
    who = f"Rank {hung.main.rank}" if hung.main.rank is not None else "Training"
    longest = hung.call.timing.longest if hung.call.timing.count else None
    request = hung.call.what == HTTP
    why = ": the server does not answer" if request else ""
    remedy, *alternatives = _remedies(hung, request=request)
    return case.finding(
        hung.main,
        cause=f"{who} has been blocked in {hung.call.name} for {duration(hung.seconds)}, {place}{why}.",
        seen=[
            _idle(case, hung),
            *([f"such calls took {duration(longest)} at most before"] if longest is not None else []),
            *([modes(hung.main)] if hung.main.loggers else []),
        ],
        remedy=remedy,
        alternatives=alternatives,
        onset_s=case.stall.since if case.stall is not None else None,
        where=hung.where,
        subject=Subject("logger", library(hung.call.name) or hung.call.name),
        symptom=hung.symptom.value,
    )


def _idle(case: Case, hung: HungCall) -> str:
    known = any(seen.pid == hung.main.pid for seen in case.processes or ())
    return "the process neither computes nor sends" if known else "the call has not returned"


def _remedies(hung: HungCall, *, request: bool) -> list[Remedy]:
    call = "requests.post, url, json=values, timeout=5" if request else "log, values"
    thread = Remedy(
        f"Make the call{hung.spot} from a background thread, where it cannot block training",
        code=["logs = ThreadPoolExecutor(max_workers=1)  # once, before training", f"logs.submit({call})"],
    )
    if not request:
        return [thread]
    address = hung.call.name.partition(" ")[2]
    limit = Remedy(
        f"Give the request a timeout{hung.spot}",
        code=["requests.post(url, json=values, timeout=5)", "urllib.request.urlopen(url, data, timeout=5)"],
    )
    ask = Remedy("Ask the server from this machine", [f"curl -sS -m 5 -o /dev/null {quoted(address)}"])
    return [limit, thread, *([ask] if address else [])]
