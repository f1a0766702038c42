"""One file for each format. A further one is a further file: nothing else has to be edited.

A format has
- `NAME`, as users call it, and `ENDINGS` of file names by which it is meant to be known;
- `claims(head)`: whether the first 4096 bytes (decompressed) are of this format;
- `read(stream, notes)`: reads it to its end and notes what is wrong, what it holds, and what it counted;
- `glance(raw, notes)`, if there is something to learn from its ends alone: for a look at files that are not read whole;
- `decoded(data)`, if it can be a member of an archive: decodes it, and gives what is wrong in a few words, or nothing;
  `FAULT` is the kind of fault that is then noted (`undecodable` where it does not say);
- `SEEKS = True`, if it needs the file itself (`stream.raw`): then it cannot be compressed as a whole;
- `PART = True`, if it is only ever a part of a sample: a text file by itself is nothing that can be judged;
- `LIBRARY`, if it needs one: a file of this format stays unread without it, and the user is told;
- `ORDER`, if it is to be asked earlier (below 0) or later (above 0) than others.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType

COMPRESSED = (".gz", ".zst", ".zstd", ".bz2", ".xz", ".lz4")


@cache
def formats() -> list[ModuleType]:
    found = [importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__)]
    return sorted((one for one in found if hasattr(one, "NAME")), key=lambda one: (getattr(one, "ORDER", 0), one.NAME))


def by_content(head: bytes) -> ModuleType | None:
    return next((one for one in formats() if one.claims(head)), None)


def by_name(path: str, *, part: bool = False) -> ModuleType | None:
    """What a file is meant to be, where its content does not say; `part`: it is a part of a sample."""
    known = [one for one in formats() if part or not getattr(one, "PART", False)]
    return next((one for one in known for ending in endings(path) if ending in one.ENDINGS), None)


def of_member(name: str, head: bytes) -> ModuleType | None:
    """What can decode a member of an archive: by its name, which is what training goes by, else by its content."""
    found = by_name(name, part=True) or by_content(head)
    return found if hasattr(found, "decoded") else None


def endings(path: str) -> Iterator[str]:
    """`.tar.gz`: .gz, then .tar."""
    name, last = os.path.splitext(path.rpartition("/")[2].lower())
    yield last
    if last in COMPRESSED:
        yield os.path.splitext(name)[1]
