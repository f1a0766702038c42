"""Whether a file that is named on the command line lists files, and is not data itself."""

from __future__ import annotations

import csv
import json
import re

from ...errors import UserError
from ...evidence.data import Listed
from ..files import braces
from . import ours
from .lines import of_list, of_sums, of_table
from .places import is_there, placed
from .records import JSON, entries, record

HEAD = 4096  # bytes that are looked at; with fewer, the file is known whole
LOOKED = 20  # files of it that are looked for
# Keys that only an index has: of wids, of energon, of MosaicML, of sharded safetensors.
MARKS = re.compile(r'"(shardlist|wids_version|shard_counts|weight_map)"\s*:|"raw_data"\s*:\s*\{\s*"basename"')
SHARD = r"\.(tar|tgz|parquet|arrow|feather|jsonl|ndjson|mds)(\.(gz|zst|zstd|bz2|xz|lz4))?"
SHARDS = re.compile(SHARD + "$", re.IGNORECASE)
QUOTED = re.compile(rf'"([^"\\\n]{{1,1000}}{SHARD})"', re.IGNORECASE)


def is_manifest(path: str, head: bytes) -> bool:
    """By its first 4096 bytes, and by whether files that it names are there. In doubt it is none: data is data."""
    if ours.is_ours(head):
        return True
    if b"\0" in head or not head.strip():
        return False
    text = head.decode("utf-8-sig", "surrogateescape")
    lines = text.replace("\r\n", "\n").split("\n")
    if len(head) >= HEAD:
        lines = lines[:-1]
    try:
        if JSON.match(text):
            return _json(path, text, [one for one in lines if one.strip()])
        return _text(path, lines)
    except (csv.Error, UserError, RecursionError):
        return False


def _json(path: str, text: str, lines: list[str]) -> bool:
    rows = [_decoded(one) for one in lines]
    several = len(rows) > 1 and all(isinstance(one, dict) for one in rows)
    if several or path.lower().endswith((".jsonl", ".ndjson")):
        return _of_shards(path, [record(one) if isinstance(one, dict) else None for one in rows])
    if MARKS.search(text):
        return True
    whole = _decoded(text)
    named = entries(whole) if whole is not None else [Listed(one[1]) for one in QUOTED.finditer(text)]
    return bool(named) and all(SHARDS.search(one.path) for one in named) and _there(path, named)


def _text(path: str, lines: list[str]) -> bool:
    if of_sums(lines) is not None:
        return True
    table = of_table(lines)
    if table is not None:
        return _of_shards(path, [*table])
    listed = of_list(lines)
    return listed is not None and _there(path, listed)


def _of_shards(path: str, rows: list[Listed | None]) -> bool:
    """Each record speaks of a shard, and says something of it: so does no sample."""
    found = [one for one in rows if one is not None and (one.samples is not None or one.size is not None or one.digest)]
    if not found or len(found) < len(rows):
        return False
    full = placed(found, path)
    return all(SHARDS.search(one.path) for one in full) and any(is_there(one.path) for one in full[:LOOKED])


def _there(path: str, named: list[Listed]) -> bool:
    firsts = [Listed(next(braces(one.path))) for one in named[:LOOKED]]
    return any(is_there(one.path) for one in placed(firsts, path))


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
