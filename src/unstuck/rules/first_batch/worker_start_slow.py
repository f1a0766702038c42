"""Starting the workers takes long, and nothing is loaded meanwhile.

## What it looks at
For the first pass over each loader with workers: how long it took from the beginning of the pass until every worker was
ready for its first sample, and what that went into, as the workers themselves recorded it: making the processes, their
imports, unpacking what they are sent, and `worker_init_fn`.

## Why it happens
A worker that is spawned is a new Python: it imports torch and runs the main script's top level again, then unpacks the
dataset. On a few processors many of them do so at once and slow each other down. A forked worker imports nothing, but a
large main process takes time to fork. And `worker_init_fn` runs in every worker before its first sample: what it reads
or builds is read and built as many times.

## What to do
Make `worker_init_fn` cheaper: keep what it prepares in a local file, or do it when it is first needed. Or hide it: ask
for the first iterator (`iter(loader)`) before the model is built, so that both happen at once. What all workers build
alike, build once in the main process, where forked workers find it ready. Move heavy work at the script's top level
under `if __name__ == "__main__":`. Start fewer workers, and fork them where nothing forbids it.

## How sure it is
Certain of the seconds: each worker notes when it was started and when it was ready. It speaks when the start took five
seconds and a fifth of the run, of a run that goes on after fifteen: a start of some seconds before a long training is
nothing to worry about. Of workers that are spawned, three seconds of it have to be something else than importing torch,
for which they are given three times what the main process took. Workers that are started again for every pass are
another rule's (worker-respawn-epoch-gap), and so is a large dataset that is sent to them (spawn-pickle-large-dataset).
Time in which the run was ready and other programs had the CPU cores is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_run, fair_worker_start
from ...analysis.loading import IMPORTING, MAKING, PREPARING, UNPACKING, WorkerStart, lasted, worker_start
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import duration, many, percent
from ..rule import Level, rule

LONG = 5.0  # seconds: importing torch alone takes a spawned worker two or three
LIVE = 15.0  # seconds, of a run that goes on: the longer it will run, the less a start matters
SHARE = 0.2  # of the run, from its first pass on
BEYOND = 3.0  # seconds more than a worker that is spawned needs anyhow
IMPORTS = 2.0  # seconds to import torch, where it is not known how long the main process took
AT_ONCE = 3  # times as long, for workers that do so together on few processors
SMALL = 0.05  # seconds: parts that are not worth a word


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for loader in main.loaders:
            found = worker_start(case, main, loader) if loader.num_workers else None
            if found is None:
                continue
            ran = max(lasted(main), found.seconds)
            fair = fair_worker_start(case, main, loader, found)
            if fair.seconds < (LIVE if main.alive else LONG):
                continue
            if fair.seconds < SHARE * max(fair_run(case, main, loader, ran), fair.seconds):
                continue
            unusual = _unusual(main, loader, fair)
            if sum(unusual.values()) < BEYOND:
                continue
            most = max(unusual, key=lambda name: unusual[name])
            yield case.finding(
                main,
                cause=f"The first batch had to wait {duration(found.seconds)}, {percent(found.seconds / ran)} of the "
                f"run, for the {_workers(loader)} of {loader.name} to start: {_why(loader, found, most)}.",
                seen=list(_seen(loader, found)),
                remedy=_remedy(loader, most),
                onset_s=loader.began,
                where=loader.created,
                subject=Subject("loader", loader.name),
            )


def _unusual(main: Process, loader: Loader, found: WorkerStart) -> dict[str, float]:
    """The parts without what importing torch costs any new Python on this machine, as the main process found out."""
    if loader.context == "fork":
        return found.parts
    began = main.opened if main.started is None else main.started
    alone = main.imported - began if main.imported is not None else IMPORTS
    return {**found.parts, IMPORTING: max(found.parts[IMPORTING] - AT_ONCE * alone, 0.0)}


def _workers(loader: Loader) -> str:
    return "only worker" if loader.num_workers == 1 else f"{loader.num_workers} workers"


def _why(loader: Loader, found: WorkerStart, most: str) -> str:
    seconds = duration(found.parts[most])
    name = (loader.worker_init_fn or PREPARING).rpartition(".")[2]
    init = f"{name}, its worker_init_fn, takes {seconds} in each of them"
    return {
        PREPARING: f"{init}, and it is still running" if found.going_on else init,
        IMPORTING: f"each is a new Python ({loader.context}), which takes {seconds} to import what it needs",
        UNPACKING: f"each needs {seconds} more after its imports, to run the main script's top level again and to "
        "unpack the dataset",
        MAKING: f"making the processes alone takes {seconds}",
    }[most]


def _seen(loader: Loader, found: WorkerStart) -> Iterator[str]:
    parts = ", ".join(f"{name} {duration(seconds)}" for name, seconds in found.parts.items() if seconds >= SMALL)
    yield f"of that, as the workers noted it: {parts}"
    how = f" by {loader.context}" if loader.context else ""
    last = max(one.opened for one in found.workers) - (loader.began or 0.0)
    yield f"{many(len(found.workers), 'worker')} started{how}, the last of them ran after {duration(max(last, 0.0))}"
    if loader.first:
        yield f"the first batch was waited for {duration(loader.first[0])}, later ones {duration(loader.waits.mean)}"


def _remedy(loader: Loader, most: str) -> Remedy:
    fork = " Where nothing forbids it, multiprocessing_context='fork' imports and sends nothing."
    if most == PREPARING:
        name = (loader.worker_init_fn or "it").rpartition(".")[2]
        shared = " What all workers build alike, build once in the main process before: forked workers find it ready."
        return Remedy(
            f"Make {name} cheaper: save what it prepares to a local file once and map or load that, or do it when it "
            "is first needed. Or let it run beside the rest of the start: ask for the first iterator early, "
            f"`batches = iter(loader)`, before the model is built.{shared if loader.context == 'fork' else ''}"
        )
    if most == MAKING:
        return Remedy(
            f"Start fewer workers than {loader.num_workers}, and start them before the main process has grown: make "
            "the iterator early, with persistent_workers=True."
        )
    if most == UNPACKING:
        text = (
            'Move what the script does at its top level under `if __name__ == "__main__":`, and keep the dataset small.'
        )
        return Remedy(text + fork)
    return Remedy(f"Import less at the top of the script and of the dataset's module, or start fewer workers.{fork}")
