"""Where the files of a manifest are: names in it are relative to its folder, unless that leads nowhere."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from collections.abc import Callable

import msgspec

from ...evidence.data import Listed
from .. import files
from .lines import piped

LOOKED = 64  # names by which it is told what they are relative to
ENERGON = ".nv-meta"  # its paths are relative to the folder that this one lies in
COMPRESSED = (".zst", ".zstd", ".gz", ".br", ".bz2", ".snappy", ".xz", ".lz4")
FIRST = (".tar", ".parquet", ".arrow", ".jsonl")  # img2dataset writes 00000.parquet beside the shard 00000.tar


def folder_of(manifest: str) -> str:
    folder = manifest.rpartition("/")[0] or ("/" if manifest.startswith("/") else "")
    return folder.removesuffix(ENERGON).rstrip("/") if folder.rpartition("/")[2] == ENERGON else folder


def placed(found: list[Listed], manifest: str) -> list[Listed]:
    """With the paths that the files have from here. One way of reading the names holds for all of them."""
    folder = folder_of(manifest)
    names = [piped(one.path) for one in found]
    place = _reading(names, folder)
    full = _with_endings([place(one) for one in names])
    return [msgspec.structs.replace(one, path=path) for one, path in zip(found, full, strict=True)]


def stored(found: list[Listed]) -> list[Listed]:
    """MosaicML's index names a shard as it is and compressed, with the same count: only one of them need be stored."""
    known = {one.path: one for one in found}
    gone = set()
    for one in found:
        if one.path.endswith(COMPRESSED):
            raw = known.get(os.path.splitext(one.path)[0])
            if raw is not None and raw.samples is not None and raw.samples == one.samples:
                gone |= _not_stored(raw.path, one.path)
    return [one for one in found if one.path not in gone]


def _not_stored(raw: str, packed: str) -> set[str]:
    if files.is_address(raw) or not os.path.lexists(raw):
        return {raw}
    return set() if os.path.lexists(packed) else {packed}


def is_there(path: str) -> bool:
    """At an address: assumed, for asking takes a while."""
    return files.is_address(path) or os.path.lexists(path)


def joined(folder: str, name: str) -> str:
    if files.is_address(name) or name.startswith("/"):
        return name
    if files.is_address(folder):
        scheme, _, inner = folder.partition("://")
        return f"{scheme}://{posixpath.normpath(f'{inner}/{name}')}"
    return os.path.normpath(os.path.join(folder, name))


def _reading(names: list[str], folder: str) -> Callable[[str], str]:
    """Relative to the manifest's folder; to where we stand; or moved, so that only the last part holds."""

    def beside(name: str) -> str:
        return joined(folder, name)

    def here(name: str) -> str:
        return name

    def moved(name: str) -> str:
        return joined(folder, name.rpartition("/")[2])

    ways = [beside, here]
    if max(Counter(one.rpartition("/")[2] for one in names).values(), default=0) == 1:
        ways.append(moved)
    for way in ways if not files.is_address(folder) else ():
        if any(map(os.path.lexists, _with_endings([way(one) for one in names[:LOOKED]]))):
            return way
    return beside


def _with_endings(paths: list[str]) -> list[str]:
    """open_lm's manifest has `00000` for 00000.tar."""
    bare = {os.path.dirname(one) for one in paths if not os.path.splitext(one)[1] and not os.path.lexists(one)}
    known = {stem: path for folder in bare for stem, path in _endings(folder).items()}
    return [known.get(one, one) for one in paths]


def _endings(folder: str) -> dict[str, str]:
    """The files of a folder by their names without endings; of several, the one that is a shard."""
    found: dict[str, str] = {}
    for path in sorted(_inside(folder), key=_rank, reverse=True):
        where, _, name = path.rpartition("/")
        found[f"{where}/{name.partition('.')[0]}" if where or path.startswith("/") else name.partition(".")[0]] = path
    return found


def _rank(path: str) -> tuple[int, str]:
    return next((turn for turn, ending in enumerate(FIRST) if ending in path), len(FIRST)), path


def _inside(folder: str) -> list[str]:
    try:
        if files.is_address(folder):
            system, inner = files.file_system(folder)
            return [system.unstrip_protocol(one) for one in system.ls(inner, detail=False)]
        return [os.path.join(folder, one) if folder else one for one in os.listdir(folder or ".")]
    except OSError:
        return []
