"""Manifests of any form: whether a file is one, and what it says.

Of a file that is named on the command line: whether it lists files, and is not data itself. Of a manifest that cannot
be understood: why, clearly.
"""

from __future__ import annotations

import csv
import importlib
import itertools
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ...errors import UserError
from ...evidence.data import Listed, Manifest
from ...wording.text import size
from ..compression import compression_of
from ..files import HEAD, braces, file_stat, open_file
from .forms import JSON, MOST, entries, of_json, of_list, of_sums, of_table, record, total
from .own import is_own, read_own
from .places import is_there, placed, stored

LARGEST = 512 << 20  # bytes of a manifest that is not ours: it is held in memory as a whole
KNOWN = (
    "give an index of wids or MosaicML, JSON with names of files and their counts, what sha256sum prints, "
    "a list of paths, a CSV file with a header, or what --write-manifest wrote"
)
ALIKE = 8  # files that are looked at to tell whether a number is a size
LOOKED = 20  # files of it that are looked for
# Keys that only an index has: of wids, of energon, of MosaicML, of sharded safetensors.
MARKS = re.compile(r'"(shardlist|wids_version|shard_counts|weight_map)"\s*:|"raw_data"\s*:\s*\{\s*"basename"')
SHARD = r"\.(tar|tgz|parquet|arrow|feather|jsonl|ndjson|mds)(\.(gz|zst|zstd|bz2|xz|lz4))?"
SHARDS = re.compile(SHARD + "$", re.IGNORECASE)
QUOTED = re.compile(rf'"([^"\\\n]{{1,1000}}{SHARD})"', re.IGNORECASE)


def read(path: str) -> Manifest:
    """Paths in it are as they are from here. Raises UserError where it says nothing that is understood."""
    try:
        with open_file(path) as file:
            head = file.read(HEAD)
        if is_own(head):
            return read_own(path)
        text = _text(path, head)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UserError(f"the manifest {path} cannot be read: {reason}", "look at the path") from None
    named, samples = _understood(path, text)
    if not named and samples is None:
        raise UserError(f"no names of files are found in the manifest {path}", KNOWN)
    found = list(itertools.islice(_expanded(named), MOST + 1))
    if len(found) > MOST:
        raise UserError(f"the manifest {path} names more than {MOST:,} files", "check fewer at a time")
    return Manifest(path, _sized(stored(_once(placed(found, path)))), samples)


def _text(path: str, head: bytes) -> str:
    packed, length = compression_of(head), file_stat(path).size
    if packed or b"\0" in head:
        raise UserError(f"the manifest {path} is {f'compressed with {packed}' if packed else 'no text'}", KNOWN)
    if length > LARGEST:
        raise UserError(f"the manifest {path} has {size(length)}", f"give one of at most {size(LARGEST)}")
    with open_file(path) as file:
        data = b"".join(iter(lambda: file.read(1 << 20), b""))
    return data.decode("utf-8-sig", "surrogateescape")


def _understood(path: str, text: str) -> tuple[list[Listed], int | None]:
    """What it says of files, and how many samples there are in all."""
    try:
        if path.lower().endswith((".yaml", ".yml")):
            return _of_document(_yaml(path, text))
        if JSON.match(text):
            return _of_json(text)
        lines = text.replace("\r\n", "\n").split("\n")
        for form in (of_sums, of_table, of_list):
            found = form(lines)
            if found is not None:
                return found, None
    except RecursionError:
        raise UserError(f"the manifest {path} is nested too deeply", KNOWN) from None
    except (ValueError, csv.Error) as error:
        raise UserError(f"the manifest {path} is not understood: {error}", KNOWN) from None
    return [], None


def _of_json(text: str) -> tuple[list[Listed], int | None]:
    """One document, or one a line."""
    try:
        return _of_document(json.loads(text))
    except json.JSONDecodeError as error:
        first = text.lstrip().partition("\n")[0].rstrip()
        if error.msg != "Extra data" or not first.endswith(("}", "]")):
            raise
    return [entry for line in of_json(iter(text.split("\n"))) for entry in line], None


def _of_document(document: Any) -> tuple[list[Listed], int | None]:
    return entries(document), total(document)


def _yaml(path: str, text: str) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise UserError(f"the manifest {path} needs PyYAML", "pip install pyyaml") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _expanded(named: list[Listed]) -> Iterator[Listed]:
    """`shard-{000..127}.tar`, where nothing is said of it that is true of one file only."""
    for entry in named:
        if "{" in entry.path and not _weight(entry):
            yield from map(Listed, braces(entry.path))
        else:
            yield entry


def _once(found: list[Listed]) -> list[Listed]:
    """A file that is named in several places, such as once in a list and once with its count, by what is said most."""
    best: dict[str, Listed] = {}
    for entry in found:
        known = best.get(entry.path)
        if known is None or _weight(entry) > _weight(known):
            best[entry.path] = entry
    return list(best.values())


def _weight(entry: Listed) -> int:
    return (entry.samples is not None) + (entry.size is not None) + bool(entry.digest)


def _sized(found: list[Listed]) -> list[Listed]:
    """A number that is exactly a file's size is one, whatever it is called: no sample takes a single byte."""
    counted = [entry for entry in found if entry.samples and entry.size is None and os.path.isfile(entry.path)][:ALIKE]
    if not any(os.path.getsize(entry.path) == entry.samples for entry in counted):
        return found
    return [msgspec.structs.replace(entry, size=entry.samples, samples=None) for entry in found]


def is_manifest(path: str, head: bytes) -> bool:
    """By its first 4096 bytes, and by whether files that it names are there. In doubt it is none: data is data."""
    if is_own(head):
        return True
    if b"\0" in head or not head.strip():
        return False
    text = head.decode("utf-8-sig", "surrogateescape")
    lines = text.replace("\r\n", "\n").split("\n")
    if len(head) >= HEAD:
        lines = lines[:-1]
    try:
        if JSON.match(text):
            return _json_names_shards(path, text, [line for line in lines if line.strip()])
        return _text_names_files(path, lines)
    except (csv.Error, UserError, RecursionError):
        return False


def _json_names_shards(path: str, text: str, lines: list[str]) -> bool:
    rows = [_parsed(line) for line in lines]
    several = len(rows) > 1 and all(isinstance(row, dict) for row in rows)
    if several or path.lower().endswith((".jsonl", ".ndjson")):
        return _of_shards(path, [record(row) if isinstance(row, dict) else None for row in rows])
    if MARKS.search(text):
        return True
    whole = _parsed(text)
    named = entries(whole) if whole is not None else [Listed(match[1]) for match in QUOTED.finditer(text)]
    return bool(named) and all(SHARDS.search(entry.path) for entry in named) and _are_there(path, named)


def _text_names_files(path: str, lines: list[str]) -> bool:
    if of_sums(lines) is not None:
        return True
    table = of_table(lines)
    if table is not None:
        return _of_shards(path, [*table])
    listed = of_list(lines)
    return listed is not None and _are_there(path, listed)


def _of_shards(path: str, rows: list[Listed | None]) -> bool:
    """Each record speaks of a shard, and says something of it: so does no sample."""
    found = [
        entry
        for entry in rows
        if entry is not None and (entry.samples is not None or entry.size is not None or entry.digest)
    ]
    if not found or len(found) < len(rows):
        return False
    full = placed(found, path)
    return all(SHARDS.search(entry.path) for entry in full) and any(is_there(entry.path) for entry in full[:LOOKED])


def _are_there(path: str, named: list[Listed]) -> bool:
    firsts = [Listed(next(braces(entry.path))) for entry in named[:LOOKED]]
    return any(is_there(entry.path) for entry in placed(firsts, path))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
