r"""A DataLoader worker exited in the middle of its work, with an exit code and no exception.

## It means
Something in the worker called exit: `sys.exit` in code that was written for the command line, `os._exit`, or the C
library's `exit` in a native one. torch carries exceptions to the main process, but an exit leaves no traceback: the
loop is told only that a worker exited unexpectedly. An exception that comes before the worker's loop, while it is being
set up, ends with code 1. Code 0 is also what torch's workers answer to SIGTERM from their own parent.

## Fix
Find that call, and raise an exception there instead: torch carries it to the main process with its traceback.
```python
# before
if record is None:
    sys.exit(3)

# after
if record is None:
    raise ValueError(f"no record {index}")
```

## Check it yourself
With `num_workers=0` the same code ends the training itself, at that line:
```python
for batch in DataLoader(dataset, num_workers=0):
    pass
```
Search for the call:
```sh
grep -rnE --include="*.py" "os\._exit|sys\.exit|\bexit\(|SystemExit|\.terminate\(" .
```

## Not this, if
- the worker was killed by a signal: [worker-segfault](worker-segfault.md), [worker-killed](worker-killed.md),
  [worker-oom-killed](worker-oom-killed.md)
- it exits with code 1 at the start, with a text about the bootstrapping phase:
  [missing-main-guard](missing-main-guard.md)
- it raised an exception in a sample: [worker-python-exception](worker-python-exception.md)

## How sure
Judged from the exit status of every worker: a code rather than a signal, though its loop had not come to an end, and
the main process ended because of it. For code 0 the main process's own words must name the worker. Then from what the
worker did last. Certain that the worker exited by itself, with this code, before its loop was over. Which line called
exit is not known: it leaves no trace.

## Seen in
- https://github.com/patrickloeber/pytorchTutorial/issues/3: workers exit unexpectedly on Windows, without a signal.
- https://github.com/xuebinqin/BASNet/issues/32: the same in a test script; it ran with `num_workers=0`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.failures import Death, worker_deaths
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import FetchState
from ...evidence.process import Failure
from ...wording.printable import quoted
from ...wording.settings import settings
from ...wording.text import duration, many, said, who
from ..rule import Level, rule

TEXTS = (
    "DataLoader worker (pid(s)",
    "exited unexpectedly",
)

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
        ended = f": {words.type}" if words is not None else " (no exception)"
        yield case.finding(
            death.worker,
            cause=f"DataLoader {who(death.worker)} {_left(death, words)}{_doing(death)}{ended}.",
            seen=[*_seen(death), *_others(left[1:])],
            saw="" if words is None else _flat(words),
            alternatives=_alternatives(death, words),
            remedy=_remedy(death, words),
            onset_s=death.seen.at,
            where=words.frames[-1] if words is not None and words.frames else death.loader.created,
            subject=None if _index(death) is None else Subject("sample", str(_index(death))),
        )


def _left(death: Death, words: Failure | None) -> str:
    """Python itself exits with 1 and 2 as well: of other codes, a call of exit is the only source."""
    called = words is None and death.known_code and death.seen.status > 2
    return f"called exit({death.seen.status})" if called else f"exited {_code(death)}"


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
        return " before its first batch"
    if _index(death) is not None and at.now == FetchState.LOADING:
        return f" while loading sample {_index(death)}"
    if at.now == FetchState.IDLE:
        return f" after {many(at.batches, 'batch')}, while waiting for an index"
    return f" while {at.now}, after {many(at.batches, 'batch')}"


def _seen(death: Death) -> Iterator[str]:
    yield f"it exited after {duration(death.seen.at)}, without a signal; its loop had not ended"
    failure = death.main.failure
    if failure is not None:
        yield f"{who(death.main)} then raised {said(failure, 160)}"
    yield f"loader: {death.loader.name}"


def _others(others: list[Death]) -> Iterator[str]:
    if others:
        codes = ", ".join(sorted({str(one.seen.status) for one in others}))
        yield f"{many(len(others), 'more worker')} exited after it, with code {codes}"


def _remedy(death: Death, words: Failure | None) -> Remedy:
    if words is not None:
        return Remedy("Start at the worker's own error: it was printed above torch's traceback.")
    sample = _index(death)
    if sample is not None and not death.loader.iterable:
        text = "Load this sample in the main process and step through it: it exits at the same call"
        return Remedy(text, code=[f"dataset[{sample!r}]"])
    text = "Run the same loader without workers and step through it: it exits at the same call"
    return Remedy(text, code=[settings(death.loader, num_workers=0)])


def _alternatives(death: Death, words: Failure | None) -> list[Remedy]:
    if words is not None:
        return []
    raised = Remedy("Raise an exception instead of exiting: torch then reports what and where.")
    sent = Remedy("Find what terminates the workers: they answer SIGTERM from their parent with code 0, too.")
    calls = [Remedy("Search the code for the calls that can exit.", search)] if (search := _search(death)) else []
    return [*calls, raised, *([sent] if death.seen.status == 0 and death.known_code else [])]


def _search(death: Death) -> list[str]:
    created = death.loader.created
    if created is None or not is_users(created) or "/" not in created.file:
        return []
    return [f"grep -rnE --include='*.py' {quoted(CALLS)} {quoted(created.file.rpartition('/')[0] or '/')}"]
