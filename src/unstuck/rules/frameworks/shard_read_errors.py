"""Shards or files could not be opened or decoded, somebody caught the error, and training goes on without them.

## What it looks at
Errors that a handler of webdataset's was asked about: shards that could not be opened, samples that could not be
decoded or mapped. And exceptions that left a function which reads files (`numpy.load`, `torch.load`, Pillow, tarfile,
gzip, pyarrow.parquet) while a sample was loaded, and after which the process went on: the dataset's own code has
caught them.

## Why it happens
A missing, empty or damaged file should not end a long run, so loaders catch the error, log one line, and go on: with
the next file, or with a sample they had before. The loss does not show: the loss curve looks normal, lengths agree, and
the same damage is met again in every epoch. Where many are affected, training sees another dataset than it was given.

## What to do
Look at the files named, mend or fetch them again, or take them off the list, so that it is known what is trained on. In
the loader, count what is left out or replaced, and raise above a limit.

## How sure it is
Certain of each error, and that the process went on. What took the place of the lost samples is only known for
webdataset, which leaves them out. A file that could be read later on does not count; neither does one that a loader
looked for and did not find. Files of one sample each, and samples that fail to decode, are left alone below 5 %: to
leave out a few is a decision. One file that holds many samples is told, up to a thousand files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, is_users
from ...analysis.shards import READERS, Met, Trouble, by_path, of_list, same, swallowed, trouble
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process
from ...wording.printable import quoted
from ...wording.text import duration, line, many, percent, short, who
from ..rule import Level, rule

SHARDS = 0.001  # of the list: who reads thousands and tells a handler to go on has decided so
SAMPLES = 0.05  # of what was read: a few bad samples are part of most datasets, and to leave them out is a decision
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
    then = f"; {loss.came_of_it.text}" if loss.came_of_it is not None else ""
    return case.finding(
        first.process,
        cause=f"{_cause(loss)}{then}.",
        seen=list(_seen(loss)),
        remedy=_remedy(loss),
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
    part = f"{loss.number:,} of {many(loss.among, loss.what)} ({percent(loss.number / max(loss.among, 1))})"
    words = f"{error.type}: {error.message.strip().splitlines()[0]}"[:160] if error.message.strip() else error.type
    if loss.what == "shard":
        name = error.path.rpartition("/")[2]
        if error.list_lost:
            own = first.shards.mine or loss.among
            left = max(own - first.shards.finished // max(first.shards.passes, 1), 1)
            return (
                f"{name} could not be opened ({words}), and {error.handler} ended the reading there: {left:,} of the "
                f"{many(own, 'shard')} of {who(first.process)} are left unread, in every epoch"
            )
        return f"{part} could not be opened, {name} first ({words}), and {error.handler} went on without {_them(loss)}"
    if loss.what == "sample":
        return f"{part} failed in {error.stage} ({words}), and {error.handler} went on without {_them(loss)}"
    place = f" ({short(first.shards.where)})" if is_users(first.shards.where) else ""
    name = _name(first)
    files = len(by_path(loss.met))
    share = f"{loss.number:,} of {loss.among:,} calls of {name}{place} failed ({percent(loss.number / loss.among)})"
    if loss.number == loss.among:  # how often it went well was not counted
        share = f"Reading with {name}{place} failed {many(loss.number, 'time')}"
    about = f"for {error.path.rpartition('/')[2]}" if files == 1 else f"for {files} files or more"
    replaced = first.loader is not None and not first.loader.iterable
    instead = "other samples stand in for theirs" if replaced else "their samples are left out, or others repeated"
    return f"{share}, {about} ({words}); the dataset caught the error and went on: {instead}"


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
        times = f"; met {len(own)} times" if len(own) > 1 else ""
        yield f"{path or 'a file without a name'}{key}: {error.type}: {error.message[:160]}{times}"
    first = loss.met[0]
    if first.shards.library == READERS:
        yield f"raised in {_name(first)}, called at {line(first.shards.where)}; {who(first.process)} went on"
    else:
        yield f"handler={first.error.handler}; {who(first.process)} met it first"
    slept = sum(one.error.slept for one in loss.met)
    if slept >= SLEPT:
        yield f"handlers took {duration(slept)} over these errors, during which nothing was loaded"


def _remedy(loss: Loss) -> Remedy:
    first = loss.met[0]
    paths = [one for one in by_path(loss.met) if one.startswith("/")][:SHOWN]
    files = "this file" if len(by_path(loss.met)) == 1 else f"these {loss.what}s"
    if loss.what == "sample":
        text = (
            f"Look at the samples named: {percent(loss.number / loss.among)} is more than bad luck, most often a "
            "decoder that does not fit the data. Mend the function or the data; a handler of your own that counts and "
            f"raises above a limit, instead of {first.error.handler}, keeps this from going unnoticed."
        )
    else:
        text = (
            f"Fetch or write {files} again, or take {_them(loss)} off the list. Then count in the "
            f"{'handler' if first.error.handler else 'except block'} what is left out or replaced, and raise above a "
            "limit: a run must say what it was not trained on."
        )
    return Remedy(text, [f"ls -l {quoted(one)}" for one in paths])
