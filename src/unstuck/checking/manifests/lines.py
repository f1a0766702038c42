"""Manifests of lines: checksums as `sha256sum` writes them, tables with a header, plain lists of paths, JSON lines."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from typing import Any

from ...evidence.data import Listed
from .records import LENGTHS, NAMES, entries, is_file, record

SUM = re.compile(r"(\\?)([0-9a-fA-F]{8,128})[ \t]+\*?(.+)")
BSD_SUM = re.compile(r"(?:MD5|SHA\d+) \((.+)\) = ([0-9a-fA-F]{32,128})")
COUNTED = re.compile(r"(.+?)[\t ,]+(\d{1,18})")
ADDRESS = re.compile(r"[\w+-]+://\S+|\S*/\S+|\S+\.\w+")
LONGEST = 4096  # characters of a line that is looked at closely: a path has no more
ESCAPED = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}  # as sha256sum writes them in a name


def of_sums(lines: list[str]) -> list[Listed] | None:
    """None: these are no checksums."""
    found = [_sum(one) for one in lines if one.strip() and not one.startswith("#")]
    return [one for one in found if one is not None] if found and all(found) else None


def _sum(line: str) -> Listed | None:
    match = BSD_SUM.fullmatch(line)
    if match is not None:
        name, text, escaped = match[1], match[2], ""
    else:
        match = SUM.fullmatch(line)
        if match is None:
            return None
        escaped, text, name = match[1], match[2], match[3]
    if len(text) not in LENGTHS:
        return None
    name = re.sub(r"\\[\\nr]", lambda one: ESCAPED[one[0]], name) if escaped else name
    return Listed(name, digest=f"{LENGTHS[len(text)]}:{text.lower()}")


def of_table(lines: list[str]) -> list[Listed] | None:
    """With a header that names a column of files and another of what is said of them. None: there is no such."""
    filled = [one for one in lines if one.strip()]
    between = next((one for one in "\t,;" if filled and one in filled[0]), "")
    if not between:
        return None
    rows = csv.reader(filled, delimiter=between)
    header = [one.strip().lower() for one in next(rows)]
    if not any(name in header for name in NAMES) or is_file(filled[0].split(between)[0]):
        return None
    found = [record(dict(zip(header, row, strict=False))) for row in rows]
    return [one for one in found if one is not None]


def of_list(lines: list[str]) -> list[Listed] | None:
    """Paths, one a line, each with a number behind it or without. None: a line is none."""
    found = [_named(one.strip()) for one in lines if one.strip() and not one.lstrip().startswith("#")]
    return [one for one in found if one is not None] if found and all(found) else None


def _named(line: str) -> Listed | None:
    match = COUNTED.fullmatch(line) if len(line) < LONGEST else None
    if match is not None and is_file(match[1]):
        return Listed(match[1], samples=int(match[2]))
    return Listed(line) if is_file(piped(line)) else None


def piped(name: str) -> str:
    """What webdataset would read through a command: `pipe:aws s3 cp s3://…/000.tar -`."""
    if not name.startswith("pipe:") or len(name) >= LONGEST:
        return name.removeprefix("file:") if not name.startswith("file://") else name
    words = [one for one in ADDRESS.findall(name.removeprefix("pipe:")) if is_file(one)]
    return words[0] if words else name


def of_json(lines: Iterator[str]) -> Iterator[list[Listed]]:
    """What each line says. Raises ValueError."""
    for line in lines:
        if line.strip():
            yield said(json.loads(line))


def said(node: Any) -> list[Listed]:
    one = record(node) if isinstance(node, dict) else None
    return [one] if one is not None else entries(node, depth=1)
