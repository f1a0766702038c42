"""A DataLoader worker left by itself in the middle of its work, with an exit code and without a word.

## What it looks at
The exit status of every worker: a code rather than a signal, though its loop had not come to an end, and the main
process ended because of it. For code 0 the main process's own words must name the worker. Then what the worker did
last.

## Why it happens
Something in the worker called exit: `sys.exit` in code that was written for the command line, `os._exit`, or the C
library's `exit` in a native one. An exception that comes before the worker's loop, while it is being set up, ends with
code 1. Code 0 is also what torch's workers answer to SIGTERM from their own parent.

## What to do
Find that call: with num_workers=0 the same code ends the training itself, at that line. Raise an exception there
instead: torch carries it to the main process with its traceback.

## How sure it is
Certain that the worker left by itself, with this code, before its loop was over. Which line called exit is not known:
it leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.failures import Death, worker_deaths
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import FetchState
from ...evidence.process import Failure
from ...wording.printable import quoted
from ...wording.text import duration, many, said, who
from ..rule import Level, rule

CALLS = r"os\._exit|sys\.exit|\bexit\(|\bquit\(|SystemExit|\.terminate\("


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording", "exits"),
    level=Level.GENERAL,
    outranks=("worker-python-exception",),
)
def check(case: Case) -> Iterator[Finding]:
    left = [one for one in worker_deaths(case) if one.seen.status >= 0]
    for death in left[:1]:
        words = _last_words(death)
        ended = f", after {_flat(words)}" if words is not None else ", without an exception"
        yield case.finding(
            death.worker,
            cause=f"DataLoader {who(death.worker)} exited {_code(death)}{_doing(death)}{ended}.",
            seen=[*_seen(death, words), *_others(left[1:])],
            remedy=_remedy(death, words),
            onset_s=death.seen.at,
            where=words.frames[-1] if words is not None and words.frames else death.loader.created,
            subject=None if _index(death) is None else Subject("sample", str(_index(death))),
        )


def _last_words(death: Death) -> Failure | None:
    """What ended the worker's process. An exception from a sample does not: torch carries it to the main process."""
    return next((one for one in reversed(death.worker.failures) if one.how == "uncaught"), None)


def _code(death: Death) -> str:
    return f"with code {death.seen.status}" if death.known_code else "by itself (its code was lost)"


def _flat(words: Failure) -> str:
    return f"{words.type}: {' '.join(words.message.split())}"[:200]


def _index(death: Death) -> int | str | None:
    return death.fetching.index if death.fetching is not None else None


def _doing(death: Death) -> str:
    at = death.fetching
    if at is None or not at.now:
        return " before it had fetched anything"
    if _index(death) is not None and at.now == FetchState.LOADING:
        return f" while it loaded sample {_index(death)}"
    if at.now == FetchState.IDLE:
        return f" after {many(at.batches, 'batch')}, while it waited for an index"
    return f" while it was {at.now}, after {many(at.batches, 'batch')}"


def _seen(death: Death, words: Failure | None) -> Iterator[str]:
    yield f"worker {death.worker.worker} exited {_code(death)} after {duration(death.seen.at)}; its loop had not ended"
    failure = death.main.failure
    if failure is not None:
        yield f"{who(death.main)} then ended by {said(failure, 160)}"
    yield "no signal ended it" if words is None else f"its own last words: {_flat(words)}"
    yield f"it worked for {death.loader.name}"


def _others(others: list[Death]) -> Iterator[str]:
    if others:
        codes = ", ".join(sorted({str(one.seen.status) for one in others}))
        yield f"{many(len(others), 'further worker')} exited after it, with code {codes}"


def _remedy(death: Death, words: Failure | None) -> Remedy:
    if words is not None:
        return Remedy("Start at what its last words say: they were printed by the worker, above torch's own traceback.")
    sample = _index(death)
    indexed = sample is not None and not death.loader.iterable
    alone = f"Load dataset[{sample!r}] in the main process" if indexed else "Run the same loader with num_workers=0"
    text = (
        f"{alone} and step through it: it leaves at the same call. Raise an exception there instead, and torch will "
        "say what and where."
    )
    if death.seen.status == 0 and death.known_code:
        text += " If nothing there exits, look for who terminates the workers: SIGTERM from their parent is code 0 too."
    return Remedy(text, _search(death))


def _search(death: Death) -> list[str]:
    created = death.loader.created
    if created is None or not is_users(created) or "/" not in created.file:
        return []
    return [f"grep -rnE --include='*.py' {quoted(CALLS)} {quoted(created.file.rpartition('/')[0] or '/')}"]
