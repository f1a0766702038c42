"""Reads a manifest, whatever its form, and says clearly where it cannot."""

from __future__ import annotations

import csv
import importlib
import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

import msgspec

from ...errors import UserError
from ...evidence.data import Listed, Manifest
from ...wording.text import size
from .. import files
from ..compression import compression_of
from ..files import braces
from . import ours
from .lines import of_json, of_list, of_sums, of_table
from .places import placed, stored
from .records import JSON, MOST, entries, total

LARGEST = 512 << 20  # bytes of a manifest that is not ours: it is held in memory as a whole
KNOWN = (
    "give an index of wids or MosaicML, JSON with names of files and their counts, what sha256sum prints, "
    "a list of paths, a CSV file with a header, or what --write-manifest wrote"
)
ALIKE = 8  # files that are looked at to tell whether a number is a size


def read(path: str) -> Manifest:
    """Paths in it are as they are from here. Raises UserError where it says nothing that is understood."""
    try:
        with files.open_file(path) as file:
            head = file.read(4096)
        if ours.is_ours(head):
            return ours.read(path)
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
    packed, length = compression_of(head), files.file_stat(path).size
    if packed or b"\0" in head:
        raise UserError(f"the manifest {path} is {f'compressed with {packed}' if packed else 'no text'}", KNOWN)
    if length > LARGEST:
        raise UserError(f"the manifest {path} has {size(length)}", f"give one of at most {size(LARGEST)}")
    with files.open_file(path) as file:
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
    return [one for each in of_json(iter(text.split("\n"))) for one in each], None


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
    for one in named:
        if "{" in one.path and not _weight(one):
            yield from map(Listed, braces(one.path))
        else:
            yield one


def _once(found: list[Listed]) -> list[Listed]:
    """A file that is named in several places, such as once in a list and once with its count, by what is said most."""
    best: dict[str, Listed] = {}
    for one in found:
        known = best.get(one.path)
        if known is None or _weight(one) > _weight(known):
            best[one.path] = one
    return list(best.values())


def _weight(one: Listed) -> int:
    return (one.samples is not None) + (one.size is not None) + bool(one.digest)


def _sized(found: list[Listed]) -> list[Listed]:
    """A number that is exactly a file's size is one, whatever it is called: no sample takes a single byte."""
    counted = [one for one in found if one.samples and one.size is None and os.path.isfile(one.path)][:ALIKE]
    if not any(os.path.getsize(one.path) == one.samples for one in counted):
        return found
    return [msgspec.structs.replace(one, size=one.samples, samples=None) for one in found]
