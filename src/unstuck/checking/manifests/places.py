"""Where the files of a manifest are: names in it are relative to its folder, unless that leads nowhere."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from collections.abc import Callable

import msgspec

from ...evidence.data import Listed
from ..compression import ENDINGS
from ..files import file_system, is_address
from .forms import piped

LOOKED = 64  # names by which it is told what they are relative to
ENERGON = ".nv-meta"  # its paths are relative to the folder that this one lies in
COMPRESSED = (*ENDINGS, ".br", ".snappy")
FIRST = (".tar", ".parquet", ".arrow", ".jsonl")  # img2dataset writes 00000.parquet beside the shard 00000.tar


def folder_of(manifest: str) -> str:
    folder = manifest.rpartition("/")[0] or ("/" if manifest.startswith("/") else "")
    return folder.removesuffix(ENERGON).rstrip("/") if folder.rpartition("/")[2] == ENERGON else folder


def placed(found: list[Listed], manifest: str) -> list[Listed]:
    """With the paths that the files have from here. One way of reading the names holds for all of them."""
    folder = folder_of(manifest)
    names = [piped(entry.path) for entry in found]
    place = _way_of_reading(names, folder)
    full = _with_endings([place(name) for name in names])
    return [msgspec.structs.replace(entry, path=path) for entry, path in zip(found, full, strict=True)]


def _way_of_reading(names: list[str], folder: str) -> Callable[[str], str]:
    """Relative to the manifest's folder; to where we stand; or moved, so that only the last part holds."""

    def beside(name: str) -> str:
        return joined(folder, name)

    def here(name: str) -> str:
        return name

    def moved(name: str) -> str:
        return joined(folder, name.rpartition("/")[2])

    ways = [beside, here]
    if max(Counter(name.rpartition("/")[2] for name in names).values(), default=0) == 1:
        ways.append(moved)
    for way in ways if not is_address(folder) else ():
        if any(map(os.path.lexists, _with_endings([way(name) for name in names[:LOOKED]]))):
            return way
    return beside


def _with_endings(paths: list[str]) -> list[str]:
    """open_lm's manifest has `00000` for 00000.tar."""
    bare = {os.path.dirname(path) for path in paths if not os.path.splitext(path)[1] and not os.path.lexists(path)}
    known = {stem: path for folder in bare for stem, path in _endings(folder).items()}
    return [known.get(path, path) for path in paths]


def _endings(folder: str) -> dict[str, str]:
    """The files of a folder by their names without endings; of several, the one that is a shard."""
    found: dict[str, str] = {}
    for path in sorted(_files_in(folder), key=_rank, reverse=True):
        where, _, name = path.rpartition("/")
        found[f"{where}/{name.partition('.')[0]}" if where or path.startswith("/") else name.partition(".")[0]] = path
    return found


def _rank(path: str) -> tuple[int, str]:
    return next((turn for turn, ending in enumerate(FIRST) if ending in path), len(FIRST)), path


def _files_in(folder: str) -> list[str]:
    try:
        if is_address(folder):
            system, inner = file_system(folder)
            return [system.unstrip_protocol(name) for name in system.ls(inner, detail=False)]
        return [os.path.join(folder, name) if folder else name for name in os.listdir(folder or ".")]
    except OSError:
        return []


def stored(found: list[Listed]) -> list[Listed]:
    """MosaicML's index names a shard as it is and compressed, with the same count: only one of them need be stored."""
    known = {entry.path: entry for entry in found}
    gone = set()
    for entry in found:
        if entry.path.endswith(COMPRESSED):
            raw = known.get(os.path.splitext(entry.path)[0])
            if raw is not None and raw.samples is not None and raw.samples == entry.samples:
                gone |= _not_stored(raw.path, entry.path)
    return [entry for entry in found if entry.path not in gone]


def _not_stored(raw: str, packed: str) -> set[str]:
    if is_address(raw) or not os.path.lexists(raw):
        return {raw}
    return set() if os.path.lexists(packed) else {packed}


def is_there(path: str) -> bool:
    """At an address: assumed, for asking takes a while."""
    return is_address(path) or os.path.lexists(path)


def joined(folder: str, name: str) -> str:
    if is_address(name) or name.startswith("/"):
        return name
    if is_address(folder):
        scheme, _, inner = folder.partition("://")
        return f"{scheme}://{posixpath.normpath(f'{inner}/{name}')}"
    return os.path.normpath(os.path.join(folder, name))
