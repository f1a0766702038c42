"""A process reached the kernel's limit of memory mappings, so it cannot map anything more.

## It means
Every tensor in shared memory, and every file that is mapped on its own, is a mapping, however small. Linux allows one
process 65,530 of them by default (`vm.max_map_count`). Caches of many small tensors, latents or records reach that, and
so does the `file_system` sharing strategy with tensors that are kept. The kernel then answers "Cannot allocate memory",
though there is plenty.

## Fix
Need fewer: one large mapping and slices of it, instead of thousands of small ones.

```python
latents = [torch.from_file(path, size=1024) for path in paths]  # before: a mapping for each file

whole = torch.from_file("latents.bin", size=len(paths) * 1024)  # after: one mapping
latents = whole.view(len(paths), 1024)  # slices need none of their own
```

Keep copies of what workers sent: `kept.append(tensor.clone())`. Or raise the limit, which needs root; in a container
the limit of the host counts:

```sh
sudo sysctl -w vm.max_map_count=1048576
```

## Check it yourself
```sh
sysctl vm.max_map_count
wc -l /proc/PID/maps         # of the worker or the main process, while it runs
free -h                      # memory is not short
```

## Not this, if
- /dev/shm is full: [shm-exhausted](shm-exhausted.md)
- file descriptors ran out first ("Too many open files"): [fd-exhausted-tensors-kept](fd-exhausted-tensors-kept.md)
- the thread that pins memory failed for another reason: [pin-memory-thread-died](pin-memory-thread-died.md)

## How sure
Judged from the exception with which mapping memory failed, and from how many mappings that very process had then,
compared with the kernel's limit for one process. Certain: the mappings were counted when the kernel refused another.
Raising the limit was not tried on the machine this rule was written on; mapping once and slicing was.

## Seen in
- https://github.com/pytorch/pytorch/issues/92134: the pin-memory thread fails with "unable to mmap 2048 bytes" in
  epoch 25
- https://github.com/kohya-ss/sd-scripts/issues/1790: cached latents; gone with a higher vm.max_map_count
- https://github.com/vllm-project/compressed-tensors/pull/798: offloaded weights reach the limit before memory is full
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import Raised, fatal
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...wording.text import many, said, size, who
from ..rule import Level, rule

TEXTS = ("unable to mmap", "Cannot allocate memory (12)", "[Errno 12] Cannot allocate memory")

# Some mappings are freed on the way out of the exception: a few, of many thousands.
NEARLY = 0.98
FILE = re.compile(r"from file <([^>]+)>")
SHARED = re.compile(r"/?torch_\d+_")  # how torch names a tensor in shared memory
WANTED = 1 << 20  # mappings: what distributions that have raised the default allow


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in fatal(case) if _at_the_limit(one.failure)][:1]:
        place, file = user_line(one.failure), _file(one.failure)
        remedy, *others = _remedies(one)
        yield case.finding(
            one.process,
            cause=f"{who(one.process).capitalize()} reached the kernel's limit of {one.failure.maps_limit:,} memory "
            "mappings; memory itself is not short.",
            seen=list(_seen(case, one)),
            remedy=remedy,
            alternatives=others,
            onset_s=one.failure.at,
            where=place,
            subject=Subject("file", file) if file and not SHARED.match(file) else None,
            saw=said(one.failure),
        )


def _at_the_limit(failure: Failure) -> bool:
    return bool(failure.maps and failure.maps_limit) and (failure.maps or 0) >= NEARLY * (failure.maps_limit or 0)


def _file(failure: Failure) -> str | None:
    """The file whose mapping was refused, where torch names it."""
    match = FILE.search(failure.message)
    return match[1] if match is not None else None


def _seen(case: Case, one: Raised) -> Iterator[str]:
    place = user_line(one.failure)
    inside = f" when {place.function} asked for another" if place is not None and is_users(place) else ""
    yield f"it had {one.failure.maps:,} mappings{inside}; vm.max_map_count is {one.failure.maps_limit:,}"
    host = case.host_of(one.process)
    if host is not None and host.samples:
        yield f"{size(host.samples[-1].available)} of memory were available"
    samples = sum(fetching.samples for fetching in one.process.fetching)
    if samples and one.process is not one.main:
        each = (one.failure.maps or 0) / samples
        yield f"{each:.3g} mappings for each of the {many(samples, 'sample')} it had loaded"
    if one.loader is not None and (one.process is not one.main or one.failure.position is not None):
        yield f"loader: {one.loader.name}"


def _remedies(one: Raised) -> list[Remedy]:
    file = _file(one.failure)
    more = Remedy(
        "Allow more mappings; this needs root, and in a container it is the host's setting.",
        [f"sudo sysctl -w vm.max_map_count={WANTED}"],
    )
    if file is None:
        return [Remedy("Map fewer and larger pieces."), more]
    if not SHARED.match(file):
        once = Remedy(
            "Map a file once, as a whole: slices of it need no mapping of their own.",
            code=["whole = torch.from_file(path, size=count * length)    # once", "piece = whole[at : at + length]"],
        )
        return [once, more]
    packed = Remedy(
        "Pack many small tensors into a few large ones before they are shared.",
        code=["packed = torch.stack(tensors)    # send this, and take packed[index]"],
    )
    return [packed, Remedy("Keep copies of what workers sent.", code=["kept.append(tensor.clone())"]), more]
