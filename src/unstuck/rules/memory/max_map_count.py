"""A process has as many memory mappings as the kernel allows one, so it may map nothing more.

## What it looks at
The exception with which mapping memory failed, and how many mappings that very process had then, beside the kernel's
limit for one process, vm.max_map_count.

## Why it happens
Every tensor in shared memory and every file that is mapped on its own is a mapping, however small. The limit is 65,530
by default. Caches of many small tensors, latents or records reach it; so does the `file_system` sharing strategy with
tensors that are kept. The kernel then answers "Cannot allocate memory", though there is plenty.

## What to do
Need fewer: one large mapping and slices of it instead of thousands of small ones, copies (`clone()`) instead of what
workers sent. Or raise the limit: `sysctl vm.max_map_count`, which needs root; in a container, that of the host.

## How sure it is
Sure: the mappings were counted when the kernel refused another one. Raising the limit was not tried on the machine this
rule was written on; mapping once and slicing was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import Raised, fatal
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...wording.text import line, many, said, short, size, who
from ..rule import Level, rule

# Some mappings are given back on the way out of the exception: a few, of many thousands.
NEARLY = 0.98
FILE = re.compile(r"from file <([^>]+)>")
SHARED = re.compile(r"/?torch_\d+_")  # how torch names a tensor in shared memory
WANTED = 1 << 20  # mappings: what distributions that have raised the default allow


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in fatal(case) if _at_the_limit(one.failure)][:1]:
        place, file = user_line(one.failure), _file(one.failure)
        at = f" at {short(place)}" if is_users(place) else ""
        yield case.finding(
            one.process,
            cause=f"{who(one.process).capitalize()} has {one.failure.maps:,} memory mappings and may have "
            f"{one.failure.maps_limit:,}: the next one{at} was refused. It is not memory that is short.",
            seen=list(_seen(case, one)),
            remedy=_remedy(one),
            onset_s=one.failure.at,
            where=place,
            subject=Subject("file", file) if file and not SHARED.match(file) else None,
        )


def _at_the_limit(failure: Failure) -> bool:
    return bool(failure.maps and failure.maps_limit) and (failure.maps or 0) >= NEARLY * (failure.maps_limit or 0)


def _file(failure: Failure) -> str | None:
    """The one whose mapping was refused: torch names it."""
    match = FILE.search(failure.message)
    return match[1] if match is not None else None


def _seen(case: Case, one: Raised) -> Iterator[str]:
    place = user_line(one.failure)
    yield said(one.failure, 200) + (f", under {line(place)} in {place.function}" if place is not None else "")
    yield f"{one.failure.maps:,} mappings in {who(one.process)}; vm.max_map_count is {one.failure.maps_limit:,}"
    host = case.host_of(one.process)
    if host is not None and host.samples:
        yield f"{size(host.samples[-1].available)} of memory were available"
    samples = sum(fetching.samples for fetching in one.process.fetching)
    if samples and one.process is not one.main:
        yield f"{many(samples, 'sample')} had been loaded by it: {(one.failure.maps or 0) / samples:.3g} mappings each"
    if one.loader is not None and (one.process is not one.main or one.failure.position is not None):
        yield f"it fetched for {one.loader.name}"


def _remedy(one: Raised) -> Remedy:
    file = _file(one.failure)
    if file and not SHARED.match(file):
        fewer = "Map a file once, as a whole, and take slices of it: they need no mapping of their own"
    elif file:
        fewer = (
            "Put many small tensors into few large ones before they are shared, and keep clone()s of what workers sent"
        )
    else:
        fewer = "Map fewer and larger pieces"
    text = f"{fewer}. Or allow more mappings; in a container the host's setting counts."
    return Remedy(text, [f"sudo sysctl -w vm.max_map_count={WANTED}"])
