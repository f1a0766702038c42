"""One data file wherever it lives: on this machine, or at an address that fsspec can open."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple

from ..errors import UserError

BLOCK = 8 << 20  # bytes that are fetched at a time from elsewhere
PROBES = 16  # places of a file at which is asked whether it is in memory


class Stat(NamedTuple):
    """What is known of a file before it is opened."""

    size: int
    modified: float
    other: str = ""  # what it is, where it is no file: a pipe


def is_address(path: str) -> bool:
    """s3://…, hdfs://…, memory://…; `file://` too."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.replace("+", "").replace("::", "").replace("-", "").isalnum()


def file_system(address: str) -> tuple[Any, str]:
    """fsspec's file system for an address, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise UserError(f"{address} needs fsspec", "pip install 'unstuck[data]'") from None
    try:
        system, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise UserError(f"{address}: {error}", "install what fsspec needs for it, or copy the files here") from error
    return system, path


def look(path: str) -> Stat:
    """Raises OSError."""
    if is_address(path):
        system, inner = file_system(path)
        with _of_storage():
            info = system.info(inner)
        modified = info.get("mtime") or info.get("created") or 0.0
        other = "" if info.get("type", "file") == "file" else "a folder"
        return Stat(int(info.get("size") or 0), float(modified) if isinstance(modified, (int, float)) else 0.0, other)
    known = os.stat(path)
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    other = next((name for test, name in kinds if test(known.st_mode)), "a device")
    return Stat(known.st_size, known.st_mtime, "" if stat.S_ISREG(known.st_mode) else other)


def opened(path: str) -> IO[bytes]:
    """Unbuffered, and read ahead of us. Raises OSError."""
    if is_address(path):
        system, inner = file_system(path)
        with _of_storage():
            return _Elsewhere(system.open(inner, "rb", block_size=BLOCK, cache_type="readahead"))
    plain = io.FileIO(path)
    os.posix_fadvise(plain.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
    return plain


@contextmanager
def _of_storage() -> Iterator[None]:
    """Whatever a library of some storage raises says that the storage does not give the file."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}"[:300]) from error


class _Elsewhere(io.RawIOBase, IO[bytes]):
    """A file that fsspec has opened."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def readinto(self, into: Any) -> int:
        with _of_storage():
            return int(self._file.readinto(into))

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        with _of_storage():
            return int(self._file.seek(place, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        with suppress(Exception):  # it was only read
            self._file.close()
        super().close()


def cached(file: IO[bytes], size: int) -> float | None:
    """The share of a local file that is in memory already, by asking for a byte here and there without waiting."""
    if not isinstance(file, io.FileIO) or not size or not hasattr(os, "RWF_NOWAIT"):
        return None
    found, byte = 0, bytearray(1)
    for turn in range(PROBES):
        try:
            os.preadv(file.fileno(), [byte], turn * (size - 1) // (PROBES - 1), os.RWF_NOWAIT)
            found += 1
        except BlockingIOError:
            continue
        except OSError:  # this file system cannot be asked
            return None
    return found / PROBES
