"""The thread that pins batches has died, and the loop is told only that.

## What it looks at
torch's "Pin memory thread exited unexpectedly" in the main process, the exception by which the thread itself died,
which is kept from the moment it happened, and whether a worker was ended at that time.

## Why it happens
With pin_memory=True a thread takes the batches from the workers. What goes wrong there ends the thread: a batch that
cannot be unpickled in the main process, a connection to a worker that broke, descriptors or mappings that ran out, a
device that cannot be used. The loop sees none of it. In old versions of torch (1.7) the thread also died at the second
epoch with persistent_workers=True.

## What to do
Look at the thread's exception, not at the loop's. With pin_memory=False the loop takes the batches itself and raises
the same exception where it can be seen. Then mend what it says.

## How sure it is
Not tried on a GPU: torch's thread was run with the accelerator's answers put in their place. Sure of the thread's
exception where it is quoted. Where a worker was ended by a signal it keeps quiet, since that explains more.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import BROKEN, PIN_THREAD_DIED, ended_by, pinning
from ...analysis.torch_errors import again, late, warned
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Failure, Process
from ...wording.settings import settings
from ...wording.text import line, many, said, short, who
from ..rule import Level, rule

NOTHING_CAME = "not enough values to unpack"  # an empty answer of a persistent worker: torch 1.7


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        final = ended_by(main)
        if final is None or PIN_THREAD_DIED not in final.message or _killed(case, final):
            continue
        thread = next((one for one in main.failures if pinning(one)), None)
        loader = next((one for one in main.loaders if one.pin_memory and one.batches), None) or main.newest_loader
        yield case.finding(
            main,
            cause=_cause(main, thread),
            seen=list(_seen(final, thread, loader)),
            remedy=_remedy(case, thread, loader),
            onset_s=(thread or final).at,
            where=user_line(thread or final),
            subject=Subject("loader", loader.name) if loader is not None else None,
        )
        return


def _killed(case: Case, final: Failure) -> bool:
    """A worker was ended before its main process was: afterwards they all are."""
    return any(seen.at <= final.at for seen, _ in case.abnormal_worker_exits)


def _cause(main: Process, thread: Failure | None) -> str:
    whose = f"The thread that pins batches for {who(main)}"
    if thread is None:
        return f"{whose} has died. Of what is not known: its own traceback is above, in the output of the training."
    place = user_line(thread)
    where = f" at {short(place)}" if is_users(place) else ""
    return f"{whose} died of {said(thread, 160)}{where}, while it took a batch from a worker."


def _seen(final: Failure, thread: Failure | None, loader: Loader | None) -> Iterator[str]:
    yield f"{said(final)}, in the loop"
    if thread is not None:
        last, own = thread.frames[-1], user_line(thread)
        yield f"before, in {thread.thread or 'the thread'}: {said(thread, 200)}"
        yield from warned(thread)
        yield f"raised in {last.function} ({line(last)})" + (
            f", under {line(own)} in {own.function}" if own is not None and is_users(own) and own != last else ""
        )
    if loader is not None:
        persistent = " and persistent_workers=True" if loader.persistent_workers else ""
        yield (f"{many(loader.batches, 'batch')} had come from {loader.name}, with pin_memory=True{persistent}")


def _remedy(case: Case, thread: Failure | None, loader: Loader | None) -> Remedy:
    error = late(thread)
    if error is not None:
        return again(case, error)  # the thread only met it
    made = f" of {loader.name}" if loader is not None else ""
    visible = (
        f"Set {settings(loader, pin_memory=False)}{made}: the same error is then raised in the loop itself, where it "
        "can be looked at."
    )
    if thread is None:
        return Remedy(visible)
    if is_users(user_line(thread)):
        return Remedy(
            f"A batch cannot be put together again in the main process: mend {short(user_line(thread))}. "
            "`pickle.loads(pickle.dumps(batch))` shows it without a loader; with pin_memory=False the loop raises it "
            "itself."
        )
    if NOTHING_CAME in thread.message and loader is not None and loader.persistent_workers:
        return Remedy("Upgrade torch: this was its own mistake. Until then set persistent_workers=False.")
    if thread.type in BROKEN:
        return Remedy(f"A worker went away, or closed the connection, before its batch was taken. {visible}")
    return Remedy(visible)
