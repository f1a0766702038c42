"""The processes that load share fewer processors than they need, while there are more that they may not use.

## What it looks at
The affinity of every worker (of the main process, with `num_workers=0`) as the kernel has it, against the processors
that the machine and the cpusets of its cgroups leave to the training; how many they had when they began; and how the
kernel served them: processor time, and time in which they were ready to run and had no processor.

## Why it happens
An affinity goes on to all children. An OpenMP library binds the process that loads it (`OMP_PROC_BIND`, `OMP_PLACES`,
`GOMP_CPU_AFFINITY`, `KMP_AFFINITY`): `import torch` is enough for that, and all workers are forked onto the one
processor of the main thread. `taskset`, `numactl` or Slurm give a task one processor. Or a `worker_init_fn` pins every
worker to the same one.

## What to do
Unset those variables, start the command with all its processors, or give them back to each worker:
`os.sched_setaffinity(0, …)` in `worker_init_fn`. One worker on each processor is fine.

## How sure it is
It is the kernel's own count. It speaks only where the loop waits for data, those who load together may use fewer
processors than there are of them, want more than they have, wait for one a third of the time or longer, it is they who
keep these processors busy, and the training does not use the others elsewhere, as ranks that are bound to parts of a
machine do. Workers that wait for storage, and workers that are pinned each to a processor of its own, are left alone.
Where the training was started that way, somebody may have meant it: then the other processors must have been idle. In a
container, processors are those of its cpuset; a quota is a limit as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import SECONDS, SHARE, Waiting, waiting
from ...analysis.processors import Pinned, pinned
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.printable import quoted_line
from ...wording.text import in_words, many, percent
from ..rule import rule

FEW = 2  # batches after the first
WANTED = 1.2  # times the processors that they have: a little more than all is no loss
QUEUED = 0.33  # of the time in which they want to run: two that share one processor wait half of it
USED = 0.3  # of the processors that they have, by themselves: else somebody else has those
LITTLE = 0.1  # processors: less is not worth a word
IDLE = 0.5  # processors
BESIDE = 0.2  # of the processor time of a main process that loads by itself: its other threads want to run, too
BINDERS = ("taskset", "numactl", "srun", "mpirun", "mpiexec", "prun", "hwloc-bind")
VARIABLES = "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"  # the last is for Intel's library
IN_WORKER, BY_MAIN, FROM_START = "in the workers", "by the main process", "from the start"


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording", "host"),
    outranks=("cpu-oversubscription", "too-many-workers"),
    applies_to_trials=True,
)
def check(case: Case) -> Iterator[Finding]:
    for main, loader in case.loaders_in_use:
        found = pinned(case, main, loader) if _matters(waiting(loader)) else None
        if found is None or not _collapsed(found, loader):
            continue
        since = _since(case, main, found)
        if not _others_idle(found, since):
            continue
        yield case.finding(
            main,
            cause=f"{_who(found, loader)} may run on {_on(found)} only, though there are {int(found.most)}: "
            f"{_waits(found, loader)}. {_how(case, main, loader, since)}",
            seen=list(_seen(main, loader, found)),
            remedy=_remedy(case, main, loader, found, since),
            where=loader.created,
            subject=Subject("loader", loader.name),
        )


def _matters(waited: Waiting) -> bool:
    """The kernel counts seconds: with batches that take long, few are enough."""
    return waited.steps >= FEW and waited.looped >= SECONDS and waited.share >= SHARE


def _collapsed(found: Pinned, loader: Loader) -> bool:
    have = len(found.on)
    if have + 1 > found.most or found.used < USED * have or found.queued < QUEUED:
        return False
    if loader.num_workers == 0:
        return found.beside >= BESIDE
    return have < len(found.uses) and found.wanted >= WANTED * have


def _others_idle(found: Pinned, since: str) -> bool:
    """The training does not use them elsewhere; where it was started with few, nobody else does either."""
    if since == FROM_START:
        return found.idle is not None and found.idle >= IDLE
    return found.most - found.busy >= IDLE


def _since(case: Case, main: Process, found: Pinned) -> str:
    at_first = [one.process.processors for one in found.uses if one.process is not main]
    if any(one is not None and one > len(found.on) for one in at_first):
        return IN_WORKER
    host = case.host_of(main)
    few = main.processors is not None and main.processors < len(found.could)
    return FROM_START if few or (host is not None and 0 < host.cpus < found.most) else BY_MAIN


def _who(found: Pinned, loader: Loader) -> str:
    if loader.num_workers == 0:
        return f"The main process, which loads the batches of {loader.name} itself,"
    return f"The {len(found.uses)} workers of {loader.name}"


def _on(found: Pinned) -> str:
    noun = "processor" if len(found.on) == 1 else "processors"
    return f"{noun} {in_words(found.on)}"


def _waits(found: Pinned, loader: Loader) -> str:
    who = "a thread of it" if loader.num_workers == 0 else "a worker"
    return f"{who} that wants to run waits for its turn {percent(found.queued)} of the time"


def _how(case: Case, main: Process, loader: Loader, since: str) -> str:
    if since == IN_WORKER:
        name = loader.worker_init_fn
        return f"They were pinned after they had started{f', as {_last(name)} may do' if name else ''}."
    if since == BY_MAIN:
        inherited = "" if loader.num_workers == 0 else ", and they inherited that"
        by = (
            f"an OpenMP library that it loaded: {_bound(main)} is set"
            if _bound(main)
            else "an import or a call of its own"
        )
        return f"The main process was pinned after it had started, by {by}{inherited}."
    binder = _binder(case) or ("Slurm" if _in_slurm(main) else "")
    return f"The training was started that way{f', by {binder}' if binder else ''}."


def _bound(main: Process) -> str:
    """The variables that make an OpenMP library bind whoever loads it."""
    known = main.threads.variables if main.threads is not None else {}
    return ", ".join(f"{name}={known[name]}" for name in VARIABLES if known.get(name, "false").lower() != "false")


def _binder(case: Case) -> str:
    first = case.run.command[:1]
    name = first[0].rpartition("/")[2] if first else ""
    return name if name in BINDERS else ""


def _in_slurm(main: Process) -> bool:
    return main.threads is not None and "SLURM_JOB_ID" in main.threads.variables


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _seen(main: Process, loader: Loader, found: Pinned) -> Iterator[str]:
    keep = "it keeps" if loader.num_workers == 0 else "they keep"
    others = f"; {found.idle:.1f} had nothing to do" if (found.idle or 0.0) >= LITTLE else ""
    there = f"{many(len(found.could), 'processor')} ({in_words(found.could)})"
    yield f"{keep} {found.used:.1f} of {there} busy{others}"
    if found.quota is not None and found.quota < len(found.could):
        yield f"the cgroup's quota lets them use {found.quota:g}"
    at_first = {one.process.processors for one in found.uses} - {None}
    if at_first and main.processors is not None:
        began = "" if loader.num_workers == 0 else f"; its workers began with {min(filter(None, at_first))}"
        yield f"the main process might use {many(main.processors, 'processor')} when it imported torch{began}"
    yield f"num_workers is {loader.num_workers}; the loop waits for data {percent(waiting(loader).share)} of the time"


def _remedy(case: Case, main: Process, loader: Loader, found: Pinned, since: str) -> Remedy:
    processors = in_words(found.could)
    command = quoted_line(case.run.command)
    if since == FROM_START and _in_slurm(main):
        wanted = min(len(found.uses) + 1, int(found.most))
        return Remedy(
            f"Ask for {wanted} processors for each task, `#SBATCH --cpus-per-task={wanted}`, and once more in front of "
            f"the training, `srun --cpus-per-task={wanted}`: srun does not take it over from sbatch."
        )
    if since == FROM_START:
        return Remedy(
            f"Start it without the binding, or with all {len(found.could)} processors: `taskset -c {processors}` right "
            "in front of python.",
            [f"taskset -c {processors} {command}"] if command and not _binder(case) else [],
        )
    call = f"os.sched_setaffinity(0, {_set(found.could)})"
    if since == IN_WORKER:
        name = f"{_last(loader.worker_init_fn)} (worker_init_fn)" if loader.worker_init_fn else "the dataset"
        return Remedy(
            f"Take the pinning out of {name}, or let it use all processors, `{call}`; or one for each worker, "
            f"`os.sched_setaffinity(0, {{worker % {len(found.could)}}})`."
        )
    own = "after the imports" if loader.num_workers == 0 else "in worker_init_fn"
    names = [one.partition("=")[0] for one in _bound(main).split(", ") if one]
    if not names:
        return Remedy(f"Find what pins it, or give the processors back: call `{call}` {own}.")
    return Remedy(
        f"Unset {' and '.join(names)}, in the shell, the job script or the program itself. Or give the processors "
        f"back: call `{call}` {own}.",
        [f"env {' '.join(f'-u {name}' for name in names)} {command}"] if command else [],
    )


def _set(processors: set[int]) -> str:
    whole = processors == set(range(len(processors)))
    return f"range({len(processors)})" if whole else "{" + ", ".join(map(str, sorted(processors))) + "}"
