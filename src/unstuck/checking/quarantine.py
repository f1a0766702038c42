"""A list of what training should leave out: bad samples by name, files that are bad as a whole; filters for loaders.

A line is a JSON array, so that any name survives: a file and a key, a file and a row counted from 0, a file and "*".
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ..analysis.data_files import archive_series
from ..evidence.data import Data, DataFile, Fault, Group
from ..wording.printable import MOST as LONGEST_NAME
from ..wording.text import many
from .data_set import SINGLE
from .files import is_address, may_write, replacing

WHOLE = "*"
START = "# unstuck quarantine"
ROWS = 100_000  # of one file: with more that are bad, it is not worth picking out the others
LINES = "jsonl"  # the format whose rows are counted from 1, as editors do
# A sample that stands twice is not bad, and its name stands for both.
HARMLESS = ("tar-duplicate",)
# Readers take an archive to end there without a word: its last sample may lack parts.
ENDS = ("tar-cut-header", "tar-no-end", "tar-early-end", "tar-bad-header")
ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[ntr])")


class BadSample(NamedTuple):
    """`what` is the key of a sample, a row, or * for the whole file."""

    file: str
    what: str | int


def bad_samples(data: Data) -> list[BadSample]:
    """Each once, in the order of the files. A file that is bad as a whole stands there as such only."""
    parts = _lacking_parts(data)
    return list(
        dict.fromkeys(BadSample(place(file.path), what) for file in data.files for what in _bad(file, parts[file.path]))
    )


def incomplete(data: Data) -> Iterator[str]:
    """Files of which more is bad than is known by name, in words."""
    parts = _lacking_parts(data)
    for file in data.files:
        lacking = parts[file.path]
        more = sum(group.samples for group in lacking if not group.keys) + _unnamed(file)
        more = 0 if WHOLE in _bad(file, lacking) else more
        if more:
            yield f"{many(more, 'more bad sample')} of {json.dumps(place(file.path))}"


def place(path: str) -> str:
    """As the filters look it up: from wherever training is started."""
    return path if is_address(path) else os.path.abspath(path)


def may_be_written(path: str, *, replace: bool = False) -> None:
    """Raises UserError where something else is there: to be asked before hours of reading."""
    may_write(path, _is_ours, "quarantine list of unstuck", replace=replace)


def write(path: str, data: Data, *, replace: bool = False) -> int:
    """Gives how many lines it has."""
    may_be_written(path, replace=replace)
    bad = bad_samples(data)
    with replacing(path) as file:
        file.writelines(f"{line}\n".encode() for line in (*_head(data, bad), *map(_line, bad)))
    return len(bad)


def _is_ours(head: bytes) -> bool:
    return head.startswith(START.encode())


def _head(data: Data, bad: list[BadSample]) -> Iterator[str]:
    files = sum(sample.what == WHOLE for sample in bad)
    yield f"{START}: {many(len(bad) - files, 'bad sample')}, {many(files, 'file')} bad as a whole"
    yield '# ["file", "key of a sample"], ["file", row counted from 0] or ["file", "*"] for all of it'
    for more in incomplete(data):
        yield f'# INCOMPLETE: {more} are not named here; put "*" to leave out the whole file'
    unknown = [file for file in data.files if file.unread or not file.whole]
    if unknown or data.stopped:
        yield f"# INCOMPLETE: {many(len(unknown), 'file')} not read to the end{', ' * bool(data.stopped)}{data.stopped}"


def _line(sample: BadSample) -> str:
    plain = sample.file.isprintable() and str(sample.what).isprintable()
    return json.dumps(sample, ensure_ascii=not plain)


def _lacking_parts(data: Data) -> dict[str, list[Group]]:
    """By file: samples without a part that nearly all of their series have."""
    found: dict[str, list[Group]] = defaultdict(list)
    for lack in (lack for series in archive_series(data.files) for lack in series.lacking):
        found[lack.file.path].append(lack.group)
    return found


def _bad(file: DataFile, lacking: list[Group]) -> list[str | int]:
    found: dict[str | int, None] = {}
    if lacking and sum(group.samples for group in lacking) == file.samples:
        return [WHOLE]
    for group in lacking:
        found.update(dict.fromkeys(key for name in group.keys for key in _keys(name)))
    for fault in file.faults:
        if fault.kind not in HARMLESS:
            found.update(dict.fromkeys(_named(fault, file)))
    return [WHOLE] if WHOLE in found or len(found) > ROWS else list(found)


def _named(fault: Fault, file: DataFile) -> Iterator[str | int]:
    """What of the file this fault makes useless; nothing, where samples are only missing."""
    if fault.row is not None and file.format != "tar":
        first = fault.row - (file.format == LINES)
        yield from range(first, first + min(max(fault.lost or 1, 1), ROWS + 1))
    elif fault.sample and file.format not in SINGLE:
        yield from _keys(fault.sample)
    elif _is_whole(fault, file):
        yield WHOLE
    elif fault.kind in ENDS:
        for group in file.groups[1:]:
            if group.samples == 1 and {*group.parts} < {*file.groups[0].parts}:
                yield from _keys(group.first)


def _is_whole(fault: Fault, file: DataFile) -> bool:
    """Nothing of it can be used. Of an archive, what stands before the damage can be."""
    if file.format in SINGLE or (file.whole and not file.samples):
        return True
    return file.format != "tar" and fault.kind != "manifest"


def _unnamed(file: DataFile) -> int:
    """Bad samples of which only the number is known."""
    named = {fault.kind for fault in file.faults if fault.sample or fault.row is not None} - {*HARMLESS}
    kept = sum(fault.kind in named and not _is_cut(fault.sample) for fault in file.faults)
    return sum(count for kind, count in file.counts.items() if kind in named) - kept


def _keys(name: str) -> tuple[str, ...]:
    """As it was before it was made fit to be printed; and as it is, for one that had such letters itself."""
    raw = ESCAPE.sub(lambda escape: escape[0].encode().decode("unicode_escape"), name)
    return () if _is_cut(name) else (name,) if raw == name else (raw, name)


def _is_cut(name: str) -> bool:
    """It was too long to be kept."""
    return name.endswith("…") and len(name) > LONGEST_NAME


LOADED = """\
import json, os
bad = {{tuple(json.loads(line)) for line in open({path!r}, encoding="utf-8") if line.startswith("[")}}
def good(file, key="*"):
    file = file if "://" in file else os.path.abspath(file.removeprefix("file:"))
    return (file, "*") not in bad and (file, key) not in bad
"""
WEBDATASET = """\
def keep(sample):
    return good(sample["__url__"], sample["__key__"])
urls = wds.shardlists.expand_urls(urls) if isinstance(urls, str) else urls
urls = [url for url in urls if good(url)]
dataset = wds.WebDataset(urls, handler=wds.warn_and_continue).select(keep)  # with your arguments; then .decode()
"""
MAP_STYLE = """\
paths = [path for path in paths if good(path)]  # enough where each file is one sample
from torch.utils.data import ConcatDataset, Subset
dataset = ConcatDataset(  # `parts`: a dataset for each of these paths, which are files of many rows
    [Subset(part, [row for row in range(len(part)) if good(path, row)]) for path, part in zip(paths, parts)]
)
"""


def webdataset_filter(path: str) -> str:
    """Python to paste: leaves out bad shards before they are opened, and bad samples before they are decoded."""
    return LOADED.format(path=place(path)) + WEBDATASET


def map_style_filter(path: str) -> str:
    return LOADED.format(path=place(path)) + MAP_STYLE
