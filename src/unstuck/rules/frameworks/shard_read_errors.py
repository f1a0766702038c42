"""Shards or files are unreadable, the error is caught, and training silently goes on without them.

## It means
A missing, empty or damaged file should not end a long run, so loaders catch the error, log one line, and go on: with
the next file, or with a sample they had before. The loss of data does not show: the curve looks normal, lengths agree,
and the same damage is met again in every epoch. Where many files are affected, training sees another dataset than it
was given.

## Fix
Fetch or write the named files again, or remove them from the list. In the loader, count what is skipped
or replaced, and raise above a limit:

```python
# before
for file in self.files:
    try:
        yield from np.load(file)["cells"]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        log.error("Error reading %s: %s", file, error)

# after
lost = 0
for file in self.files:
    try:
        yield from np.load(file)["cells"]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        lost += 1
        log.error("Error reading %s: %s (%d so far)", file, error, lost)
        if lost > 5:
            raise RuntimeError(f"{lost} files are unreadable") from error
```

With webdataset, use a handler that counts instead of `wds.warn_and_continue`. Each worker counts for itself.

## Check it yourself

```python
for file in sorted(folder.glob("*.npz")):
    try:
        np.load(file)["cells"]
    except Exception as error:
        print(file, repr(error))
```

## Not this, if
- a shard opens but breaks off in the middle: [handler-drops-shard-rest](handler-drops-shard-rest.md)
- the error was not caught and ended the run: [worker-python-exception](worker-python-exception.md)
- an image of one sample is broken: [corrupt-image-sample](corrupt-image-sample.md)
- files are missing from a series, and nothing was raised: [shard-missing](shard-missing.md)

## How sure
Judged from errors that a handler of webdataset's was asked about (shards that could not be opened, samples that could
not be decoded or mapped), and from exceptions that left a function which reads files (`numpy.load`, `torch.load`,
Pillow, tarfile, gzip, pyarrow.parquet) while a sample was loaded, after which the process went on. Certain of each
error, and that the process went on. What replaced the lost samples is only known for webdataset, which skips them. A
file that could be read later does not count; neither does one that a loader looked for and did not find. Files of one
sample each, and samples that fail to decode, are left alone below 5 %: to skip a few is a decision. One file that holds
many samples is reported, up to a thousand files.

## Seen in
- https://github.com/pytorch/pytorch/issues/1137: damaged images are skipped in the dataset, and what to return instead
- https://github.com/webdataset/webdataset/issues/291: a handler to skip samples that do not decode
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, is_users
from ...analysis.shards import READERS, Met, Trouble, by_path, of_list, same, swallowed, trouble
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process
from ...wording.printable import quoted
from ...wording.text import duration, line, many, percent, who
from ..rule import Level, rule

TEXTS = ("File is not a zip file", "No data left in file")
SHARDS = 0.001  # of the list: to skip one in thousands is what the handler is there for
SAMPLES = 0.05  # of what was read: a few bad samples are part of most datasets, and to skip them is a decision
MANY = 4  # samples for each file that is read: it holds more than one
SHOWN = 4
SLEPT = 1.0  # seconds of sleeping in handlers that are worth a line


class Loss(NamedTuple):
    """Errors of one kind, out of how many."""

    met: list[Met]
    what: str  # shards, samples, files
    number: int
    among: int
    came_of_it: Trouble | None


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.CAUSE,
    outranks=("iterable-length-lies", "straggler-rank", "uneven-file-assignment", "worker-finished-early"),
)
def check(case: Case) -> Iterator[Finding]:
    met = swallowed(case)
    broken = {one.error.path for one in met if one.error.rest_lost}  # handler-drops-shard-rest tells of these
    left = [one for one in met if one.error.path not in broken]
    for kind in (_opening, _reading, _decoding):
        loss = kind(case, left)
        if loss is not None:
            yield _finding(case, loss)
            return


def _opening(case: Case, met: list[Met]) -> Loss | None:
    """Whole shards of a list."""
    own = _first([one for one in met if one.error.stage == "open"])
    if not own:
        return None
    lists = of_list(case, own[0].shards)
    paths, total = len(by_path(own)), own[0].shards.total
    among = min(total or paths, sum(one.opened for one in lists) + paths)
    return _enough(case, own, "shard", (paths, among), SHARDS)


def _decoding(case: Case, met: list[Met]) -> Loss | None:
    """Single samples. Of many errors not each was noted, but all were counted."""
    own = _first([one for one in met if one.error.stage != "open" and one.shards.library != READERS])
    if not own:
        return None
    lists = of_list(case, own[0].shards)
    noted = sum(len(one.errors) for one in lists)
    count = sum(one.failed for one in lists) * len(own) // max(noted, 1)
    return _enough(case, own, "sample", (count, sum(one.samples for one in lists)), SAMPLES)


def _reading(case: Case, met: list[Met]) -> Loss | None:
    """Files that a loader of the user's own could not read: of all calls of the same function for the same loader."""
    own = [one for one in met if one.shards.library == READERS]
    own = [one for one in own if (one.main.pid, one.shards.name) == (own[0].main.pid, own[0].shards.name)]
    if not own:
        return None
    first = own[0]
    workers = case.workers_of(first.main, first.loader) if first.loader is not None else []
    crew = workers if first.process.role == "worker" else [first.process]
    read = sum(one.stages[first.shards.name].count for one in crew if first.shards.name in one.stages)
    failed = sum(shards.failed for one in crew for shards in one.shards if shards.library == READERS)
    least = SHARDS if not read or _holds_many(own, crew, read + failed) else SAMPLES
    return _enough(case, own, "file", (failed, failed + read), least)


def _holds_many(met: list[Met], crew: list[Process], reads: int) -> bool:
    """A file is a shard, and not one sample: few are read for many samples, or the same one for several."""
    samples = sum(max(each.samples, each.batches) for one in crew for each in one.fetching)
    times = max(
        len([one for one in own if one.process.identity == own[0].process.identity]) for own in by_path(met).values()
    )
    passes = max(met[0].loader.passes, 1) if met[0].loader is not None else 1
    return samples >= MANY * reads or times > passes


def _first(met: list[Met]) -> list[Met]:
    """Of the list that the first of them is about."""
    own = [one for one in met if one.shards.library != READERS]
    return [one for one in own if same(one.shards, own[0].shards)]


def _enough(case: Case, met: list[Met], what: str, counts: tuple[int, int], least: float) -> Loss | None:
    count, among = counts
    came_of_it = trouble(case, met)
    if isinstance(came_of_it, bool) or (came_of_it is None and count < least * among):
        return None
    return Loss(met, what, count, max(among, count), came_of_it)


def _finding(case: Case, loss: Loss) -> Finding:
    first = loss.met[0]
    then = f": {loss.came_of_it.text}" if loss.came_of_it is not None else ""
    remedy, *others = _remedies(loss)
    return case.finding(
        first.process,
        cause=f"{_cause(loss)}{then}.",
        seen=list(_seen(loss)),
        remedy=remedy,
        alternatives=others,
        onset_s=first.error.at,
        where=first.shards.where or (first.loader.created if first.loader is not None else None),
        subject=Subject("shard" if loss.what == "shard" else "file", first.error.path or loader_of(first)),
        symptom=(loss.came_of_it.symptom if loss.came_of_it is not None else Symptom.WRONG).value,
    )


def loader_of(one: Met) -> str:
    return one.loader.name if one.loader is not None else "its dataset"


def _cause(loss: Loss) -> str:
    first = loss.met[0]
    error = first.error
    name, single = error.path.rpartition("/")[2], len(by_path(loss.met)) == 1
    if loss.what == "shard":
        if error.list_lost and loss.came_of_it is None:
            own = first.shards.mine or loss.among
            left = max(own - first.shards.finished // max(first.shards.passes, 1), 1)
            return f"{name} could not be opened and {error.handler} stops there: {left:,} of {own:,} shards stay unread"
        which = name if single else f"{loss.number:,} of {many(loss.among, 'shard')}"
        return f"{which} could not be opened and {error.handler} skips {_them(loss)}"
    if loss.what == "sample":
        part = f"{loss.number:,} of {many(loss.among, 'sample')}"
        return f"{part} failed in {error.stage} and {error.handler} skips {_them(loss)}"
    broken = f"{name} is unreadable" if single else f"{len(by_path(loss.met))} files or more are unreadable"
    replaced = first.loader is not None and not first.loader.iterable
    instead = (
        f"uses other samples instead of {'its' if single else 'theirs'}"
        if replaced
        else f"goes on without {_them(loss)}"
    )
    return f"{broken} ({error.type}) and the dataset silently {instead}"


def _name(one: Met) -> str:
    """Of the function that read; it is a stage of loading, too."""
    return one.shards.name.removeprefix("read (").removeprefix("decode (").removesuffix(")")


def _them(loss: Loss) -> str:
    count = len(by_path(loss.met)) if loss.what == "file" else loss.number
    return "it" if count == 1 else "them"


def _seen(loss: Loss) -> Iterator[str]:
    for path, own in list(by_path(loss.met).items())[:SHOWN]:
        error = own[0].error
        key = f", sample {error.key}" if error.key else ""
        times = f", {len(own)} times" if len(own) > 1 else ""
        yield f"{path or 'a file without a name'}{key}: {error.type}: {error.message[:160]}{times}"
    first = loss.met[0]
    share = f"{loss.number:,} of {loss.among:,} ({percent(loss.number / max(loss.among, 1))})"
    if first.shards.library == READERS:
        place = f" at {line(first.shards.where)}" if is_users(first.shards.where) else ""
        # Where all failed, it was not counted how often it went well.
        failed = many(loss.number, "time") if loss.number == loss.among else f"in {share} calls"
        yield f"{_name(first)}{place} failed {failed}; {who(first.process)} caught the error and went on"
    else:
        yield f"{share} {loss.what}s failed; handler={first.error.handler}, first error in {who(first.process)}"
    slept = sum(one.error.slept for one in loss.met)
    if slept >= SLEPT:
        yield f"nothing was loaded for {duration(slept)}, while handlers slept over these errors"


def _remedies(loss: Loss) -> list[Remedy]:
    first = loss.met[0]
    paths = [path for path in by_path(loss.met) if path.startswith("/")][:SHOWN]
    commands = [f"ls -l {quoted(path)}" for path in paths]
    end = ":" if commands else "."
    if loss.what == "sample":
        share = percent(loss.number / max(loss.among, 1))
        return [
            Remedy(
                f"Check the decoder against these files: {share} of the samples is more than bad luck{end}", commands
            ),
            Remedy(f"Replace {first.error.handler} by a handler that counts the errors and raises above a limit."),
        ]
    files = f"this {loss.what}" if len(by_path(loss.met)) == 1 else f"these {loss.what}s"
    place = "handler" if first.error.handler else "except block"
    return [
        Remedy(f"Fetch or write {files} again, or remove {_them(loss)} from the list{end}", commands),
        Remedy(f"Count in the {place} what is skipped or replaced, and raise above a limit."),
    ]
