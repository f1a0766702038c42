"""The dataset opens files and never closes them, until its process may open no more.

## It means
`__getitem__` opens a file, an archive or a connection for each sample and leaves it open: `open(path)` without `with`,
a lazily read image, a handle that is put into a cache without a limit. Every worker has descriptors of its own, usually
1,024, and runs out of them alone. What then fails is whatever needs the next one: opening a sample, or sending a batch.

## Fix
Close each file as soon as the sample is read:
```python
# before
data = open(path, "rb").read()
image = Image.open(path)

# after
with open(path, "rb") as file:
    data = file.read()
with Image.open(path) as file:
    image = file.convert("RGB")
```
Where handles are kept on purpose, keep a bounded number and close the oldest (`functools.lru_cache` does not close what
it drops):
```python
class Handles(OrderedDict):
    def get(self, path):
        if path not in self:
            self[path] = h5py.File(path)
        self.move_to_end(path)
        if len(self) > 64:
            self.popitem(last=False)[1].close()
        return self[path]
```
A higher limit (`ulimit -n`) only delays the crash, unless the number of files is bounded and known.

## Check it yourself
Count the descriptors of a worker while it loads, and look what they are. The count should not grow:
```sh
ls "/proc/$WORKER_PID/fd" | wc -l
ls -l "/proc/$WORKER_PID/fd" | tail
```
Python names the line that leaves a file open:
```sh
python -X tracemalloc=10 -W always::ResourceWarning train.py
```

## Not this, if
- most descriptors of the main process are shared memory: [fd-exhausted-tensors-kept](fd-exhausted-tensors-kept.md)
- /dev/shm is full: [shm-exhausted](shm-exhausted.md)
- the message is "Cannot allocate memory" with free memory: [max-map-count](max-map-count.md)

## How sure
Judged from the exception with which descriptors ran out while a sample was loaded or a batch sent, and from what the
descriptors of that very process were at that moment: most are files (or sockets, or pipes), and which. Certain what the
descriptors were spent on: they were counted when there were none left. The line named is the one that needed one more:
where several lines open files, another may be the one that does not close them.

## Seen in
- https://github.com/pytorch/pytorch/issues/165532: a dataset with several open files per sample, and `EMFILE` in its
  worker.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import OPENED, Raised, listed, over_time, ran_out, spent_on
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import line, many, said, who
from ..rule import Level, rule

TEXTS = ("[Errno 24] Too many open files", "OSError: [Errno 24]", "received 0 items of ancdata")
HANDLES = {"file": "file handles", "socket": "sockets", "pipe": "pipes"}
RAISE = 'ulimit -n "$(ulimit -Hn)"'
LARGE = 65536  # descriptors: what a limit is often raised to
SHOWN = 3
EACH = 0.1  # within this much of a whole number a sample, the number is said


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    leaks = [one for one in ran_out(case) if spent_on(one.failure) in OPENED and _fetches(one)]
    for one in sorted(leaks, key=lambda one: not is_users(user_line(one.failure)))[:1]:
        files = _files(case, one)
        fix, *others = _ways(one)
        yield case.finding(
            one.process,
            cause=_cause(one),
            seen=list(_seen(case, one, files)),
            remedy=fix,
            alternatives=others,
            saw=said(one.failure, 160),
            onset_s=one.failure.at,
            where=_place(one),
            subject=Subject("file", files[0]) if files else None,
        )


def _fetches(one: Raised) -> bool:
    """The dataset's code runs in that process: it is a worker, or it was at a sample."""
    return one.process.role == "worker" or one.failure.position is not None


def _place(one: Raised) -> Place | None:
    """The user's line that needed one more descriptor; what the dataset does, where that was the sending."""
    place = user_line(one.failure)
    reads = one.loader.reads_at if one.loader is not None else None
    return place if is_users(place) or reads is None else reads


def _files(case: Case, one: Raised) -> list[str]:
    own = case.run.folder
    return [name for name in one.failure.open_files if not (own and name.startswith(own))]


def _samples(one: Raised) -> int:
    return sum(fetching.samples for fetching in one.process.fetching)


def _kind(one: Raised) -> tuple[str, int]:
    kind = spent_on(one.failure) or OPENED[0]
    return kind, one.failure.descriptors[kind]


def _cause(one: Raised) -> str:
    kind, count = _kind(one)
    name = (one.loader.dataset.rpartition(".")[2] if one.loader is not None else "") or "The dataset"
    samples = _samples(one)
    after = f" after {many(samples, 'sample')}" if samples else ", and no more can be opened"
    return f"{name} leaks {HANDLES[kind]}: {count:,} are open{after}."


def _seen(case: Case, one: Raised, files: list[str]) -> Iterator[str]:
    limit = f"{one.failure.descriptor_limit:,}"
    yield f"limit {limit}, open in {who(one.process)}: {listed(one.failure)}"
    yield from (f"still open: {name}" for name in files[:SHOWN])
    place = user_line(one.failure)
    is_own = place is not None and is_users(place)
    yield (
        f"raised below {line(place)} in {place.function}"
        if place is not None and is_own
        else "raised while a batch was sent"
    )
    if one.process is not one.main:
        mains = over_time(case, one.main)
        if mains:
            yield f"{who(one.main)} had at most {max(count for _, count in mains):,} descriptors"
    if one.loader is not None:
        yield f"loader: {one.loader.name}"


def _ways(one: Raised) -> list[Remedy]:
    """The fix, and other ways out."""
    kind, count = _kind(one)
    samples = _samples(one)
    rate = count / samples if samples else 0.0
    whole = rate > EACH and abs(rate - round(rate)) <= EACH * rate
    each = f" ({many(round(rate), kind)} per sample stays open)" if whole else ""
    code = ['with open(path, "rb") as file:'] if kind == "file" else []
    last = f": a limit of {LARGE:,} lasts for {LARGE / rate:,.0f} samples per worker" if rate else ""
    return [
        Remedy(f"Close each {kind} once the sample is read{each}", code=code),
        Remedy("If handles are kept on purpose, keep a bounded number and close the oldest."),
        Remedy(f"Raise the limit, which only delays the crash{last}", [RAISE]),
    ]
