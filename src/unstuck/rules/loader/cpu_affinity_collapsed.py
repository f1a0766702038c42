"""The processes that load data are pinned to too few CPU cores, while other cores are free.

## It means
CPU affinity is inherited by all child processes. An OpenMP library binds the process that loads it when
`OMP_PROC_BIND`, `OMP_PLACES`, `GOMP_CPU_AFFINITY` or `KMP_AFFINITY` is set: `import torch` is enough, and all workers
are then forked onto the one core of the main thread. `taskset`, `numactl` and Slurm may give a task a single core. Or a
`worker_init_fn` pins every worker to the same one. The workers then take turns on that core.

## Fix
Unset the variables:
```sh
env -u OMP_PROC_BIND -u OMP_PLACES -u GOMP_CPU_AFFINITY -u KMP_AFFINITY python train.py
```
Or give the cores back in every worker (here to eight cores):
```python
def all_cores(worker_id):
    os.sched_setaffinity(0, range(8))

loader = DataLoader(dataset, num_workers=8, worker_init_fn=all_cores)
```
In Slurm, ask for cores, and ask once more in `srun`: since 22.05 it does not inherit the number from `sbatch`.
```sh
#SBATCH --cpus-per-task=8
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" python train.py
```
One worker on each core is fine.

## Check it yourself
Which cores the main process and its workers may use, and how many the machine has:
```sh
for pid in "$MAIN_PID" $(pgrep -P "$MAIN_PID"); do taskset -cp "$pid"; done
nproc --all
```
Whether the import does it:
```sh
python -c 'import os; print(len(os.sched_getaffinity(0))); import torch; print(len(os.sched_getaffinity(0)))'
```

## Not this, if
- all cores are used, by too many threads of each worker: [cpu-oversubscription](cpu-oversubscription.md)
- all cores are used, by too many workers: [too-many-workers](too-many-workers.md)
- workers wait for storage rather than for a core: [dataloader-bound](dataloader-bound.md)
- torchrun left the main process a single thread: [omp1-by-torchrun](omp1-by-torchrun.md)

## How sure
Judged from the affinity of every worker (of the main process, with `num_workers=0`) as the kernel has it, against the
cores that the machine and the cpusets of its cgroups leave to the training; from how many they had when they began; and
from the kernel's own count of CPU time and of time spent ready to run without a core. It speaks only where the loop
waits for data, the processes that load may use fewer cores than there are of them, want more than they have, wait for a
core a third of the time or longer and keep these cores busy themselves, and the training does not use the others
elsewhere, as ranks that are bound to parts of a machine do. Workers that wait for storage, and workers that are each
pinned to a core of their own, are left alone. Where the training was started that way, it may be meant: then the other
cores must have been idle. In a container, cores are those of its cpuset; a quota is a limit as well.

## Seen in
- https://github.com/pytorch/pytorch/issues/8126: after `import torch` all worker processes ran on the same core.
- https://github.com/pytorch/pytorch/issues/101850: in one of two conda environments, workers may use fewer cores than
  the process that started them.
- https://github.com/reframe-hpc/reframe/issues/2655: srun no longer takes over `--cpus-per-task` since Slurm 22.05.
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
WANTED = 1.2  # times the cores that they have: a little more than all is no loss
QUEUED = 0.33  # of the time in which they want to run: two that share one core wait half of it
USED = 0.3  # of the cores that they have, by themselves: else other programs have those
LITTLE = 0.1  # cores: less is not worth a word
IDLE = 0.5  # cores
BESIDE = 0.2  # of the CPU time of a main process that loads by itself: its other threads want to run, too
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
        fix, *others = _ways(case, main, loader, found, since)
        yield case.finding(
            main,
            cause=_cause(found, loader, _how(case, main, loader, since)),
            seen=list(_seen(main, loader, found)),
            remedy=fix,
            alternatives=others,
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
    """The training does not use them elsewhere; where it was started with few, no other program does either."""
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


def _cause(found: Pinned, loader: Loader, how: str) -> str:
    one = len(found.on) == 1
    cores = f"core {in_words(found.on)} of {int(found.most)}" if one else f"{len(found.on)} of {int(found.most)} cores"
    if loader.num_workers == 0:
        return f"The main process, which loads the data, is pinned to {cores} ({how})."
    who = "Both workers" if len(found.uses) == 2 else "All workers"
    waits = f"wait for the CPU {percent(found.queued)} of the time" if one else "keep waiting for one"
    return f"{who} are pinned to {cores} ({how}) and {waits}."


def _how(case: Case, main: Process, loader: Loader, since: str) -> str:
    if since == IN_WORKER:
        return f"by {_last(loader.worker_init_fn)}" if loader.worker_init_fn else "after start"
    if since == BY_MAIN:
        return _bound(main) or "after start"
    binder = _binder(case) or ("Slurm" if _in_slurm(main) else "")
    return f"by {binder}" if binder else "at start"


def _bound(main: Process) -> str:
    """The variables that make an OpenMP library bind the process that loads it."""
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
    who = "it" if loader.num_workers == 0 else "the workers"
    others = f"; {found.idle:.1f} were idle" if (found.idle or 0.0) >= LITTLE else ""
    there = f"{many(len(found.could), 'CPU core')} ({in_words(found.could)})"
    yield f"{who} used {found.used:.1f} of {there}, pinned to {in_words(found.on)}{others}"
    if len(found.on) > 1 or loader.num_workers == 0:
        noun = "thread" if loader.num_workers == 0 else "worker"
        yield f"a {noun} that is ready to run waits for a core {percent(found.queued)} of the time"
    if found.quota is not None and found.quota < len(found.could):
        yield f"the cgroup's quota allows {found.quota:g} of them"
    at_first = {one.process.processors for one in found.uses} - {None}
    if at_first and main.processors is not None:
        began = "" if loader.num_workers == 0 else f"; its workers began with {min(filter(None, at_first))}"
        yield f"at `import torch` the main process could use {many(main.processors, 'core')}{began}"
    yield f"the loop waits for data {percent(waiting(loader).share)} of the time"
    yield f"loader: {loader.name}, num_workers={loader.num_workers}"


def _ways(case: Case, main: Process, loader: Loader, found: Pinned, since: str) -> list[Remedy]:
    """The fix, and other ways out."""
    cores, command = in_words(found.could), quoted_line(case.run.command)
    if since == FROM_START and _in_slurm(main):
        wanted = min(len(found.uses) + 1, int(found.most))
        return [
            Remedy(
                f"Ask Slurm for {wanted} cores per task in the job, and again in srun, which does not inherit it",
                [f"srun --cpus-per-task={wanted} {command or 'python train.py'}"],
                [f"#SBATCH --cpus-per-task={wanted}"],
            )
        ]
    if since == FROM_START:
        started = [f"taskset -c {cores} {command}"] if command and not _binder(case) else []
        return [Remedy(f"Start the training without the pinning, or with all {len(found.could)} cores", started)]
    if since == IN_WORKER:
        name = f"{_last(loader.worker_init_fn)} (worker_init_fn)" if loader.worker_init_fn else "the dataset"
        return [
            Remedy(f"Remove the pinning from {name}, or let every worker use all cores", code=_give_back(found.could)),
            Remedy("Pin each worker to a core of its own", code=[_one_each(found.could)]),
        ]
    give = _give_back(found.could)
    code = give if loader.num_workers == 0 else ["def worker_init_fn(worker_id):", f"    {give[0]}"]
    back = Remedy(
        f"Give the cores back {'after the imports' if loader.num_workers == 0 else 'in every worker'}", code=code
    )
    names = [one.partition("=")[0] for one in _bound(main).split(", ") if one]
    if not names:
        return [back, Remedy("Find the import or the call that pins the main process, and remove it.")]
    unset = f"env {' '.join(f'-u {name}' for name in names)} {command}"
    return [Remedy(f"Unset {' and '.join(names)}, wherever it is set", [unset] if command else []), back]


def _give_back(cores: set[int]) -> list[str]:
    return [f"os.sched_setaffinity(0, {_set(cores)})"]


def _one_each(cores: set[int]) -> str:
    if cores == set(range(len(cores))):
        return f"os.sched_setaffinity(0, {{worker_id % {len(cores)}}})"
    return f"os.sched_setaffinity(0, {{{sorted(cores)}[worker_id % {len(cores)}]}})"


def _set(cores: set[int]) -> str:
    whole = cores == set(range(len(cores)))
    return f"range({len(cores)})" if whole else "{" + ", ".join(map(str, sorted(cores))) + "}"
