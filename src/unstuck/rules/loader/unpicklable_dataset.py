"""The workers could not be started, because what they need cannot be pickled.

## It means
Workers started by `spawn` or `forkserver` get the dataset, the `collate_fn` and the `worker_init_fn` as a pickle; only
forked workers simply have them. Lambdas, functions and classes defined inside a function, locks, open files, sockets,
database handles and generators cannot be pickled. From Python 3.14 on, `forkserver` is the default on Linux, so a
script that has always worked fails there.

## Fix
Move functions and classes to the top of a module.
```python
# before
class Waves(Dataset):
    def __init__(self):
        self.transform = lambda wave: wave * 2


# after
def double(wave):
    return wave * 2


class Waves(Dataset):
    def __init__(self):
        self.transform = double  # functools.partial(scale, 2) carries arguments
```
Open handles and make locks in the worker, at first use, and leave them out of the pickle:
```python
def __getstate__(self):
    return {**self.__dict__, "connection": None}
```
Or fork the workers, which is safe only while no other thread runs and CUDA is not in use:
```python
loader = DataLoader(dataset, num_workers=2, multiprocessing_context="fork")
```

## Check it yourself
```python
import pickle

for name, value in vars(dataset).items():
    try:
        pickle.dumps(value)
    except Exception as error:
        print(name, error)
```

## Not this, if
- the error is raised in the workers, while they import the script: [missing-main-guard](missing-main-guard.md)
- the workers start, and a batch cannot be sent: [batch-not-picklable](batch-not-picklable.md)
- pickling works but takes long: [spawn-pickle-large-dataset](spawn-pickle-large-dataset.md)

## How sure
Judged from the exception that ended the main process while a loader's workers were being started, raised where
multiprocessing pickles what a new process gets, and from which attributes of the dataset, `collate_fn` or
`worker_init_fn` are of a kind that cannot be sent. Certain that pickling failed, before any worker ran. The attributes
are recognized by their types: the first is the one that the exception names, if it names any; others may follow once
that is fixed.

## Seen in
- https://github.com/pytorch/pytorch/issues/169252: `fork` is no longer the default start method in Python 3.14.
- https://github.com/pytorch/pytorch/issues/51836: "can't pickle _thread.lock objects" with `spawn` or `forkserver`.
- https://github.com/mathilde-b/CDA/issues/5: a lambda inside a function that makes the loaders.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, LoaderState
from ...evidence.process import Failure, Process
from ...wording.text import many, said, who
from ..rule import rule

TEXTS = (
    "Can't pickle local object",
    "Can't get local object",
    "cannot pickle '_thread.lock' object",
    "cannot pickle",
    "Got pickle error when attempting to start a worker Process.",
)

SENDING = (
    "/multiprocessing/reduction.py",
    "/multiprocessing/popen_spawn_posix.py",
    "/multiprocessing/popen_forkserver.py",
)
WORDS = ("pickle", "get local object", "serialize")  # "get local object": how Python 3.12 and 3.13 put it
INSIDE_FUNCTION = ("(a lambda", "(defined inside", "(of the class")
GRADIENTS = "(a tensor that was computed with gradients"
NOT_FORKED = ("spawn", "forkserver")
LOOK = Remedy("Remove lambdas, locks, open files and handles from the dataset, collate_fn and worker_init_fn.")
FORK = Remedy(
    "Fork the workers, if no other thread runs by then and CUDA is not in use",
    code=['DataLoader(..., multiprocessing_context="fork")'],
)


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        failure, loader = main.failure, main.newest_loader
        if failure is None or loader is None or not _unpicklable(failure, loader):
            continue
        yield case.finding(
            main,
            cause=f"Workers cannot start: {_what(failure)}, and {_method(loader)} must pickle it.",
            seen=list(_seen(main, failure, loader)),
            remedy=_remedy(failure),
            alternatives=_others(failure),
            onset_s=failure.at,
            where=user_line(failure),
            subject=Subject("attribute", failure.unpicklable[0]) if failure.unpicklable else None,
            saw=loader.failed or said(failure),
        )
        return


def _unpicklable(failure: Failure, loader: Loader) -> bool:
    starting = failure.how == "uncaught" and loader.now == LoaderState.STARTING and loader.failed is not None
    spoken = any(word in (loader.failed or "").lower() for word in WORDS)
    sending = any(frame.file.endswith(SENDING) for frame in failure.frames)
    return starting and spoken and (sending or bool(failure.unpicklable))


def _what(failure: Failure) -> str:
    """`dataset.transform` is a lambda; `dataset.db` is a sqlite3.Connection."""
    if not failure.unpicklable:
        return "something that they need cannot be pickled"
    name, _, reason = failure.unpicklable[0].removesuffix(")").partition(" (")
    if reason.startswith("of the class"):
        return f"`{name}` is {reason.partition(',')[0]}, which is defined inside a function"
    kind = reason.partition(",")[0]
    return f"`{name}` is {kind}" if kind.startswith(("a ", "defined")) else f"`{name}` is of type {kind}"


def _method(loader: Loader) -> str:
    return loader.context if loader.context in NOT_FORKED else "the start method"


def _seen(main: Process, failure: Failure, loader: Loader) -> Iterator[str]:
    place = user_line(failure)
    yield f"raised while {who(main)} started the workers" + (f", in {place.function}" if place is not None else "")
    if failure.unpicklable:
        yield f"cannot be pickled: {failure.unpicklable[0]}"
    for one in failure.unpicklable[1:]:
        yield f"nor can this: {one}"
    started = f"by {loader.context}" if loader.context in NOT_FORKED else "by a start method that pickles"
    yield f"{loader.name}: {many(loader.num_workers, 'worker')} {started}; none has run"


def _remedy(failure: Failure) -> Remedy:
    return (_ways(failure) or [LOOK])[0]


def _others(failure: Failure) -> list[Remedy]:
    return [*_ways(failure)[1:], FORK]


def _ways(failure: Failure) -> list[Remedy]:
    names = failure.unpicklable
    functions = [one.partition(" (")[0] for one in names if any(mark in one for mark in INSIDE_FUNCTION)]
    tensors = [one.partition(" (")[0] for one in names if GRADIENTS in one]
    others = [one for one in names if GRADIENTS not in one and not any(mark in one for mark in INSIDE_FUNCTION)]
    handles = [one.partition(" (")[0] for one in others]
    ways = []
    if functions:
        own = functions[0].rpartition(".")[2]
        called = own if own.isidentifier() else "function"
        ways.append(
            Remedy(
                f"Replace {' and '.join(functions)} by a function or class defined at the top of a module",
                code=[f"def {called}(value): ...  # functools.partial({called}, argument) carries arguments"],
            )
        )
    if handles:
        name = handles[0].rpartition(".")[2]
        kept = name if name.isidentifier() else "handle"
        ways.append(
            Remedy(
                f"Make {' and '.join(handles)} in the worker, at first use, and leave it out of the pickle",
                code=["def __getstate__(self):", f'    return {{**self.__dict__, "{kept}": None}}'],
            )
        )
    if tensors:
        ways.append(Remedy("Store the tensor without its gradients", code=[f"{tensors[0]}.detach()"]))
    return ways
