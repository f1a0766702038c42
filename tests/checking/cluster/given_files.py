"""Files for a cluster to read, and what it sees of them."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from msgspec.structs import replace

from unstuck.checking.notes import Wish
from unstuck.checking.workers import Task

MIB = 1 << 20


def shard(path, samples=20, size=1000):
    with tarfile.open(path, "w") as archive:
        for number in range(samples):
            for ending in ("bin", "mask"):
                data = os.urandom(size)
                member = tarfile.TarInfo(f"{number:05d}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return str(path)


def large(path):
    """Larger than what is fetched at a time."""
    return shard(path, samples=12, size=MIB)


def some_files(folder):
    """Healthy ones, and one of each that is not."""
    paths = [shard(folder / f"good-{number:03d}.tar") for number in range(6)]
    cut = Path(shard(folder / "cut.tar"))
    cut.write_bytes(cut.read_bytes()[:30_000])
    (folder / "empty.tar").touch()
    (folder / "page.tar").write_text("<!DOCTYPE html><html>Not Found</html>")
    return sorted([*paths, str(cut), str(folder / "empty.tar"), str(folder / "page.tar")])


def tasks(paths, together=3, wish=None):
    return [Task(paths[at : at + together], wish or Wish()) for at in range(0, len(paths), together)]


def plain(reads):
    """What was seen, without how long it took."""
    bare = [replace(one, file=replace(one.file, seconds=0, reading=0, cached=None)) for one in reads]
    return sorted(bare, key=lambda one: one.file.path)


def read_by(workers, given):
    moved = []
    with workers:
        reads = list(workers.read(given, moved.append))
    return plain(reads), sum(moved)
