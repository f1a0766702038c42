"""A shard could not be read to its end, and its handler silently skips everything after that place.

## It means
A tar archive is read as a stream. Where it is truncated or damaged, nothing after that place can be found again. So
`handler=wds.warn_and_continue` or `ignore_and_continue` in the reader does not skip one sample, as its name suggests,
but everything that would have followed in this shard, in every epoch. `…_and_stop` may end the whole list there. The
last sample before the damage may come without some of its parts.

## Fix
Check the shard, and fetch or write it again. Then let reading raise, and keep the handler for the stages that work on
single samples, where it does skip only one:

```python
# before
dataset = wds.WebDataset(urls, handler=wds.warn_and_continue).decode()

# after
dataset = wds.WebDataset(urls).decode(handler=wds.warn_and_continue)
```

If losses are to be accepted, count them and raise above a limit. Each worker counts for itself.

```python
lost = []


def count_and_continue(error):
    lost.append(error)
    if len(lost) > 10:
        raise error
    return True
```

## Check it yourself

```sh
tar -tf birds-03.tar > /dev/null   # says "Unexpected EOF in archive" if it is truncated
```

```python
import collections, glob
import webdataset as wds

urls = sorted(glob.glob("data/birds-*.tar"))
dataset = wds.WebDataset(urls, shardshuffle=False, handler=wds.warn_and_continue)
print(collections.Counter(sample["__url__"] for sample in dataset))  # the damaged shard has fewer
```

## Not this, if
- nothing was raised, the shard just ends early: [tar-truncated-silent](tar-truncated-silent.md)
- the error ended the run: [tar-truncated-loud](tar-truncated-loud.md)
- a shard could not be opened, or single samples could not be decoded: [shard-read-errors](shard-read-errors.md)
- samples come in halves because their files are not adjacent: [tar-keys-not-adjacent](tar-keys-not-adjacent.md)

## How sure
Judged from every error that a handler of webdataset's was asked about while an archive was read: which shard, after how
many samples, which handler, how long it slept. Certain that reading ended there and that the handler went on. How much
is lost is an estimate: the most samples that another shard of the list gave, less what this one gave. Silent where the
training ended or hangs for a reason that these errors do not explain, and about one bad shard in a thousand.

## Seen in
- https://github.com/webdataset/webdataset/issues/142: a corrupted tar file, `ReadError: unexpected end of data`
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.shards import Met, Trouble, by_path, of_list, same, swallowed, trouble, usual
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import quoted
from ...wording.text import duration, many, percent, short, who
from ..rule import Level, rule

TEXTS = ("unexpected end of data",)
FEW = 0.001  # of the shards: to skip one in thousands is what the handler is there for
LAST = 1  # samples that still come after the error: the one before is yielded when the next is looked for
DAMAGE = ("ReadError", "EOFError", "BadGzipFile", "error")  # else the connection or the disk may have failed
SHOWN = 4
SLEPT = 1.0  # seconds of sleeping in handlers that are worth a line


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.CAUSE,
    outranks=("iterable-length-lies", "straggler-rank", "uneven-file-assignment", "worker-finished-early"),
)
def check(case: Case) -> Iterator[Finding]:
    met = [one for one in swallowed(case) if _is_lost(one)]
    for first in met[:1]:
        own = [one for one in met if same(one.shards, first.shards)]
        came_of_it = trouble(case, own)
        if isinstance(came_of_it, bool) or (came_of_it is None and len(by_path(own)) < FEW * _opened(case, first)):
            return
        yield _finding(case, own, came_of_it)


def _is_lost(one: Met) -> bool:
    gave = one.error.gave
    return one.error.rest_lost and (gave is None or gave <= one.error.before + LAST)


def _opened(case: Case, one: Met) -> int:
    opened = sum(each.opened for each in of_list(case, one.shards))
    return min(opened, one.shards.total or opened)


def _finding(case: Case, met: list[Met], came_of_it: Trouble | None) -> Finding:
    first, shards = met[0], by_path(met)
    error = first.error
    lost = [_lost(case, own[0]) for own in shards.values()]
    single = len(shards) == 1
    name = error.path.rpartition("/")[2] if single else f"{len(shards)} of {_opened(case, first):,} shards"
    broken = f"{name} {'is' if single else 'are'} damaged"
    if error.type.rpartition(".")[2] not in DAMAGE:
        broken = f"Reading {name} failed"
    rest = "every later shard" if error.list_lost else "the rest of it" if single else "the rest of each"
    amount = (
        f"about {many(sum(lost), 'sample')} lost{_share(case, first, lost)}"
        if all(lost) and not error.list_lost
        else ""
    )
    told = came_of_it.text if came_of_it is not None else amount if single else ""
    return case.finding(
        first.process,
        cause=f"{broken} and {error.handler} skips {rest}{f': {told}' if told else ''}.",
        seen=[*([amount] if amount and told != amount else []), *_seen(case, met)],
        remedy=_remedy(met),
        alternatives=[
            Remedy(
                "Let reading raise: no handler in the reader, only in the stages that work on single samples:",
                code=[
                    "dataset = wds.WebDataset(urls)  # or tarfile_to_samples(), without handler=",
                    "dataset = dataset.decode(handler=wds.warn_and_continue)",
                ],
            ),
            Remedy("If some losses are acceptable, use a handler that counts them and raises above a limit."),
        ],
        onset_s=error.at,
        where=first.shards.where or (first.loader.created if first.loader is not None else None),
        subject=Subject("shard", error.path),
        symptom=(came_of_it.symptom if came_of_it is not None else Symptom.WRONG).value,
    )


def _lost(case: Case, one: Met) -> int:
    """Of one shard, in one epoch. 0: it is not known."""
    gave = one.error.gave if one.error.gave is not None else one.error.before
    return max(max(usual(case, one.shards), one.error.usual) - gave, 0)


def _share(case: Case, first: Met, lost: list[int]) -> str:
    """Of all samples that one epoch would have."""
    whole = usual(case, first.shards) * (first.shards.total or 0)
    if not whole or first.shards.resampled:
        return ""
    return f" per epoch ({percent(sum(lost) / whole)})"


def _seen(case: Case, met: list[Met]) -> Iterator[str]:
    for path, own in list(by_path(met).items())[:SHOWN]:
        one = own[0]
        gave = one.error.gave if one.error.gave is not None else one.error.before
        full = usual(case, one.shards)
        other = f" (other shards have up to {full:,})" if full else ""
        times = f", {len(own)} times" if len(own) > 1 else ""
        yield f"{path}: {one.error.type}: {one.error.message}, after {many(gave, 'sample')}{other}{times}"
    first = met[0]
    made = f" in the dataset made at {short(first.shards.where)}" if first.shards.where is not None else ""
    yield f"handler={first.error.handler}{made}; first error in {who(first.process)}"
    slept = sum(one.error.slept for one in met)
    if slept >= SLEPT:
        yield f"nothing was loaded for {duration(slept)}, while handlers slept over these errors"


def _remedy(met: list[Met]) -> Remedy:
    paths = list(by_path(met))
    local = [one for one in paths if one.startswith("/")]
    files = "this shard" if len(paths) == 1 else f"these {len(paths)} shards"
    if not local:
        return Remedy(f"Fetch or write {files} again.")
    return Remedy(
        f"Fetch or write {files} again, and check the result:",
        commands=[f"tar -tf {quoted(path)} > /dev/null" for path in local[:SHOWN]],
    )
