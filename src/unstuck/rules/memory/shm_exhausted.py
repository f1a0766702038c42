"""/dev/shm is full, so a worker could not send its batch to the main process.

## It means
Every tensor that goes from a worker to the main process lies in shared memory, in /dev/shm. Docker and Kubernetes give
a container 64 MiB of it unless told otherwise. What is needed at once is about `num_workers` x `prefetch_factor`
batches, plus those in use. torch asks for the memory first and raises "unable to allocate shared memory"; older
versions write, and the kernel kills the worker with SIGBUS ("Bus error").

## Fix
Enlarge it:

```sh
docker run --shm-size=8g IMAGE                        # or --ipc=host
sudo mount -o remount,size=8G /dev/shm                # outside a container
```

In Kubernetes, mount memory at /dev/shm:

```yaml
volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]
containers: [{name: train, volumeMounts: [{name: shm, mountPath: /dev/shm}]}]
```

Or keep fewer or smaller batches in it:

```python
loader = DataLoader(dataset, batch_size=32, num_workers=8)  # before: 16 batches wait
loader = DataLoader(dataset, batch_size=32, num_workers=4, prefetch_factor=1)  # after: 4 batches wait
```

Switching torch to the `file_system` sharing strategy does not help: it uses the same /dev/shm.

## Check it yourself
```sh
df -h /dev/shm                              # before the start, and again while it trains
ls -lS /dev/shm | head                      # whose files fill it
python -c 'import torch; print(torch.__version__)'
```

With `num_workers=0` the error is gone.

## Not this, if
- it was full before the first batch, by files that another run left: [shm-full-at-start](shm-full-at-start.md)
- the worker was killed by SIGKILL: [worker-oom-killed](worker-oom-killed.md)
- the number of mappings ran out ("Cannot allocate memory"): [max-map-count](max-map-count.md)
- SIGBUS came from a mapped file that was cut short: [worker-segfault](worker-segfault.md)
- a checkpoint met "No space left on device": [checkpoint-disk-full](checkpoint-disk-full.md)

## How sure
Judged from exceptions of workers and main processes that come from allocating shared memory and carry the kernel's "no
space left", with the size and free space of /dev/shm at that very moment; and from workers that were killed by SIGBUS
while /dev/shm was full, or while they wrote a batch to it that may not have fitted.
Certain if the kernel refused the space, or /dev/shm was seen full: a batch alone may be larger than all of it, so free
space at the crash is shown, but not required to be zero. Likely where a worker was killed by SIGBUS in torch's own
sharing code and the batches that may wait are larger than /dev/shm, but the full moment itself was not sampled.

## Seen in
- https://github.com/pytorch/pytorch/issues/58386: Docker's small default is a frequent report
- https://github.com/logicalclocks/hopsworks/issues/1557: "Bus error" and "unable to write to file" in Kubernetes, 64 MB
- https://github.com/meta-pytorch/torchx/issues/428: the launcher now makes /dev/shm configurable
- https://github.com/ostris/ai-toolkit/issues/515: file_system sharing meets the same full /dev/shm
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case, Owner
from ...analysis.failures import Death, worker_deaths
from ...analysis.shared_memory import is_refused, seen_full, size_of, too_small_for
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, line, many, said, size, who
from ..rule import rule
from ._room import larger_shm

TEXTS = (
    "unable to allocate shared memory(shm) for file",
    "unable to write to file </torch_",
    "is killed by signal: Bus error",
    "It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit",
    "Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)",
    "No space left on device (28)",
)

DOCKER_DEFAULT = 64 << 20


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    refused = [(one, process) for process in case.recording or () for one in process.failures if is_refused(one)]
    for failure, process in sorted(refused, key=lambda one: one[0].at)[:1]:
        seen = [*_space(failure.shm_size, failure.shm_free), *_waiting(case.owner_of(process.node, process.pid))]
        yield _finding(case, process, failure.at, seen, failure.shm_size, said(failure))
    if not refused:
        yield from _bus_errors(case)


def _bus_errors(case: Case) -> Iterator[Finding]:
    """The first worker that the kernel killed for writing where no memory was left."""
    for death in worker_deaths(case) if case.exits is not None else ():
        full, too_small = seen_full(case, death), too_small_for(case, death)
        if full is None and not too_small:
            continue
        space = _space(*full) if full is not None else too_small
        told = [f"worker {death.worker.worker} was killed (SIGBUS) after {duration(death.seen.at)}", *_wrote(death)]
        found = _finding(
            case,
            death.worker,
            death.seen.at,
            [*told, *space],
            full[0] if full is not None else size_of(case, death),
            _bus_error(death.main),
        )
        yield msgspec.structs.replace(found, certainty="" if full is not None else Certainty.LIKELY.value)
        return


def _bus_error(main: Process) -> str:
    """What torch said of it; a process that was faster to notice says only that the worker is gone."""
    texts = [told for failure in main.failures for told in [(failure.type, failure.message), *failure.causes]]
    return next((f"{kind}: {text.splitlines()[0]}" for kind, text in texts if "Bus error" in text), "")


def _wrote(death: Death) -> Iterator[str]:
    if death.worker.crash:
        place = death.worker.crash[-1]
        yield f"it was writing a batch to shared memory, at {line(place)} in {place.function}"


def _space(total: int | None, free: int | None) -> Iterator[str]:
    if total is not None and free is not None:
        yield f"/dev/shm has {size(total)}, of which {size(free)} were free at that moment"
        if total <= DOCKER_DEFAULT:
            yield "Docker and Kubernetes give a container 64 MiB unless asked for more"


def _finding(case: Case, process: Process, at: float, seen: list[str], total: int | None, saw: str = "") -> Finding:
    owner = case.owner_of(process.node, process.pid)
    full = f"/dev/shm is full ({size(total)})" if total else "/dev/shm is full"
    what = "send its batch" if process.role == "worker" else "share memory with its workers"
    remedy, *others = [*larger_shm(case, case.host_of(process), total), *_fewer(owner)]
    return case.finding(
        process,
        cause=f"{full}: {who(process)} could not {what}.",
        seen=seen,
        remedy=remedy,
        alternatives=others,
        onset_s=at,
        where=owner.loader.created if owner else None,
        subject=Subject("filesystem", "/dev/shm"),
        saw=saw,
    )


def _waiting(owner: Owner | None) -> Iterator[str]:
    if owner is not None and owner.loader.num_workers:
        most = owner.loader.num_workers * (owner.loader.prefetch_factor or 2)
        yield f"up to {many(most, 'batch')} of {owner.loader.name} may wait in it"


def _fewer(owner: Owner | None) -> Iterator[Remedy]:
    if owner is None or not owner.loader.num_workers:
        yield Remedy("Keep less in it: fewer workers, prefetch_factor=1, smaller batches.")
        return
    now = owner.loader.num_workers
    wanted = settings(owner.loader, num_workers=max(now // 2, 1), prefetch_factor=1)
    yield Remedy(f"Use {wanted} (now {now} and {owner.loader.prefetch_factor or 2}), or smaller batches.")
