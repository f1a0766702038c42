"""What damage costs: how many samples a file should have, by itself, by the manifest, or by its siblings."""

from __future__ import annotations

import posixpath
from statistics import median
from typing import NamedTuple

from .data_listed import listed
from .data_names import all_series
from .evidence import Evidence
from .faults import Bad, incomplete
from .phrases import many

# Samples with such a fault are there, and are counted, though they are of no use.
COUNTED = ("image", "undecodable", "zeros", "tar-apart", "tar-duplicate", "manifest")
ENOUGH = 3  # siblings that must be whole
ALIKE = 0.8  # of them that must have the same number: then every shard was meant to have it


class Loss(NamedTuple):
    """Samples that training does not get. `about`: concluded from siblings of different lengths."""

    lost: int
    of: int
    by: str = ""  # what says so, where it is not the file itself
    about: bool = False


def losses(evidence: Evidence, found: list[Bad]) -> list[Loss | None]:
    """Of each of these files; None where nothing tells."""
    entries, usual = listed(evidence), _usual(evidence) | _given(evidence)
    return [_loss(one, entries[one.file.path].samples if one.file.path in entries else None, usual) for one in found]


def _loss(bad: Bad, promised: int | None, usual: dict[str, Loss]) -> Loss | None:
    cut = sum(one.kind == "tar-cut-data" and bool(one.sample) for one in bad.faults)
    have = max((bad.file.samples or 0) - cut, 0)  # the sample that is cut is none
    if promised is not None and promised > have:
        return Loss(promised - have, promised, "the manifest")
    if bad.lost is not None:
        counted = sum(one.lost or 0 for one in bad.faults if one.kind in COUNTED) if bad.file.format != "jsonl" else 0
        counted = counted * bad.total // len(bad.faults)
        return Loss(bad.lost, max(have + bad.lost - counted, bad.lost))
    known = usual.get(bad.file.path)
    return known._replace(lost=known.of - have) if known is not None and known.of > have else None


def _given(evidence: Evidence) -> dict[str, Loss]:
    """What a recorded run got of other files of the same list, by file."""
    short = [one for each in evidence.recording or () for shards in each.shards for one in shards.short]
    cwd = evidence.run.cwd
    return {posixpath.join(cwd, one.path): Loss(0, one.usual, "the most that another shard gave") for one in short}


def _usual(evidence: Evidence) -> dict[str, Loss]:
    """How many samples its whole siblings have, by file."""
    found, not_whole = dict[str, Loss](), incomplete(evidence)
    for series in all_series(evidence):
        counts = [one.samples for one in series.files if one.samples and one.path not in not_whole and one.whole]
        if len(counts) >= ENOUGH:
            middle = int(median(counts))
            about = sum(one == middle for one in counts) < ALIKE * len(counts)
            known = Loss(0, middle, "the other shards" if not about else "the middle of the other shards", about)
            found |= {one.path: known for one in series.files[:-1]}  # the last of a series may be shorter
    return found


def cost(evidence: Evidence, found: list[Bad]) -> str:
    """24 of 50 samples are lost. Of files that hold one sample each there is no more to say than that they are bad."""
    known = [one for one in losses(evidence, found) if one is not None and one.of > 1]
    if not known:
        return ""
    lost, of = sum(one.lost for one in known), sum(one.of for one in known)
    about = "about " if any(one.about for one in known) else ""
    by = sorted({one.by for one in known if one.by})
    going = f", going by {' and '.join(by)}" if by else ""
    rest = f" of {many(len(known), 'file')}" if len(known) < len(found) else ""
    return f"{about}{lost:,} of {many(of, 'sample')}{rest} {'is' if lost == 1 else 'are'} lost{going}"
