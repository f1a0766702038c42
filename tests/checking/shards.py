"""Real archives for tests: as tarfile, webdataset and GNU tar write them, and what a training would get of one."""

from __future__ import annotations

import io
import json
import random
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

SAMPLES = 6


def sample(number: int, seed: int = 0) -> dict[str, bytes]:
    draw = random.Random(f"{seed}-{number}")
    pixels = bytes(draw.randrange(1, 256) for _ in range(draw.randrange(300, 1800)))
    return {
        "jpg": b"\xff\xd8\xff\xe0" + pixels,
        "json": json.dumps({"caption": f"picture {number}", "width": draw.randrange(999)}).encode(),
        "cls": str(draw.randrange(10)).encode(),
    }


def members(count: int = SAMPLES, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        for part, data in sample(number, seed).items():
            yield f"{number:06d}.{part}", data


def write(path: Path, content: Iterator[tuple[str, bytes]], layout: int = tarfile.PAX_FORMAT, **more: object) -> Path:
    """`mtime=1.5` makes an extended header for every member, as webdataset does."""
    with tarfile.open(path, "w", format=layout) as archive:
        for name, data in content:
            add(archive, name, data, **more)
    return path


def add(archive: tarfile.TarFile, name: str, data: bytes, **more: object) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    archive.addfile(info, io.BytesIO(data))


def with_long_names(path: Path, layout: int) -> Path:
    folder = "a-folder-with-a-long-name/" * 6
    return write(path, ((f"{folder}{name}", data) for name, data in members(4)), layout=layout)


def by_gnu_tar(path: Path, scratch: Path) -> Path:
    scratch.mkdir()
    for name, data in members():
        (scratch / name).write_bytes(data)
    names = sorted(one.name for one in scratch.iterdir())
    subprocess.run(["tar", "-cf", str(path), "-C", str(scratch), *names], check=True)
    return path


def training_gets(path: Path) -> list[tuple[str, dict[str, bytes]]] | str:
    """As webdataset reads and groups; the exception that ends it, where one does."""
    found: list[tuple[str, dict[str, bytes]]] = []
    try:
        with tarfile.open(path, "r|*") as archive:
            for info in archive:
                if not info.isreg():
                    continue
                folder, slash, name = info.name.rpartition("/")
                base, _, part = name.partition(".")
                data = archive.extractfile(info).read()
                if not found or found[-1][0] != folder + slash + base or part in found[-1][1]:
                    found.append((folder + slash + base, {}))
                found[-1][1][part] = data
    except Exception as error:  # noqa: BLE001  (whatever ends a training)
        return f"{type(error).__name__}"
    return found
