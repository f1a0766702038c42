"""Files wherever they live: which ones a user means, how they are opened and read, and how ours are written.

A path is one of this machine, or an address that fsspec knows.
"""

from __future__ import annotations

import glob
import io
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import IO, Any, NamedTuple

from ..errors import UserError
from ..wording.printable import shortened
from .compression import Inflated, compression_of
from .notes import Notes

HEAD = 4096  # bytes by which a format is known
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
OUR_RUNS = "unstuck-runs"
LARGEST_RANGE = 10_000_000  # files of one brace range: more is a slip
BLOCK = 8 << 20  # bytes that are fetched at a time from elsewhere
PROBES = 16  # places of a file at which is asked whether it is in memory
OUR_HEAD = 64  # bytes by which our own files are known


class Found(NamedTuple):
    """The files with their sizes, each once, in order; and what was named and is not there."""

    files: dict[str, int]
    absent: list[str]
    odd: list[str] = []  # noqa: RUF012  (names that are no text, as they can be printed)


def find(asked: list[str], *, exact: bool = False) -> Found:
    """Raises UserError where there is nothing at all. `exact`: they are names, in which no letter is special."""
    files: dict[str, int] = {}
    absent = []
    for word in asked:
        for path in [word] if exact or os.path.lexists(word) else braces(word):
            found = dict(_files_at(path))
            files.update(found)
            if not found:
                absent.append(path)
    if not files:
        raise UserError(
            f"there is no file at {absent[0] if absent else asked[0]}", "look at the path, or quote the glob"
        )
    odd = [path for path in files if not _is_text(path)]
    for path in odd:
        files.pop(path)
    return Found(files, absent, [shortened(path) for path in odd])


def braces(word: str) -> Iterator[str]:
    """`shard-{000..127}.tar` and `{train,val}.parquet`, as a shell writes them."""
    match = RANGE.search(word)
    if match is not None:
        first, last = int(match[1]), int(match[2])
        if not 0 <= last - first < LARGEST_RANGE:
            raise UserError(f"{match[0]} in {word} is no range", "write the smaller number first, as {000..127}")
        options = [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    else:
        match = CHOICE.search(word)
        if match is None:
            yield word
            return
        options = match[1].split(",")
    for option in options:
        yield from braces(word[: match.start()] + option + word[match.end() :])


def _is_text(path: str) -> bool:
    """Names on a disk may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _files_at(path: str) -> Iterator[tuple[str, int]]:
    """Every file below a folder; what a glob finds; or the path itself."""
    if is_address(path):
        yield from _files_at_address(path)
    elif os.path.isdir(path):
        yield from _files_below(path)
    elif os.path.lexists(path):
        yield path, _size(path)
    elif glob.has_magic(path):
        for found in sorted(glob.glob(path, recursive=True)):
            yield from _files_below(found) if os.path.isdir(found) else [(found, _size(found))]


def _files_below(folder: str) -> Iterator[tuple[str, int]]:
    """In order, without hidden ones and our own; links to folders are not followed: they may lead in a circle."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != OUR_RUNS)
        for name in sorted(names):
            if not name.startswith("."):
                path = os.path.join(where, name)
                yield path, _size(path)


def _size(path: str) -> int:
    """A link that leads nowhere is told of by whoever opens it."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _files_at_address(address: str) -> Iterator[tuple[str, int]]:
    system, path = file_system(address)
    try:
        found = sorted(system.glob(path)) if glob.has_magic(path) else [path] if system.exists(path) else []
        for found_path in found:
            is_folder = system.isdir(found_path)
            known = system.find(found_path, detail=True) if is_folder else {found_path: system.info(found_path)}
            for name, info in sorted(known.items()):
                yield system.unstrip_protocol(name), int(info.get("size") or 0)
    except OSError as error:
        raise UserError(f"{address}: {error}", "look at the address and what is needed to reach it") from error


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


def file_stat(path: str) -> Stat:
    """Raises OSError."""
    if is_address(path):
        system, inner = file_system(path)
        with _storage_errors():
            info = system.info(inner)
        modified = info.get("mtime") or info.get("created") or 0.0
        other = "" if info.get("type", "file") == "file" else "a folder"
        return Stat(int(info.get("size") or 0), float(modified) if isinstance(modified, (int, float)) else 0.0, other)
    known = os.stat(path)
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    other = next((name for test, name in kinds if test(known.st_mode)), "a device")
    return Stat(known.st_size, known.st_mtime, "" if stat.S_ISREG(known.st_mode) else other)


def open_file(path: str) -> IO[bytes]:
    """Unbuffered, and read ahead of us. Raises OSError."""
    if is_address(path):
        system, inner = file_system(path)
        with _storage_errors():
            return _RemoteFile(system.open(inner, "rb", block_size=BLOCK, cache_type="readahead"))
    plain = io.FileIO(path)
    os.posix_fadvise(plain.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
    return plain


@contextmanager
def _storage_errors() -> Iterator[None]:
    """Whatever a library of some storage raises says that the storage does not give the file."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}"[:300]) from error


class _RemoteFile(io.RawIOBase, IO[bytes]):
    """A file that fsspec has opened."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def readinto(self, into: Any) -> int:
        with _storage_errors():
            return int(self._file.readinto(into))

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        with _storage_errors():
            return int(self._file.seek(place, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        with suppress(Exception):  # it was only read
            self._file.close()
        super().close()


def cached_share(file: IO[bytes], size: int) -> float | None:
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


def head_of(path: str) -> bytes:
    """The first bytes of a file, as they are. None of one that cannot be read."""
    try:
        with open_file(path) as raw:
            return raw.read(HEAD) or b""
    except OSError:
        return b""


class Stream:
    """Sequential reading, for formats that need nothing else. `raw` is the file itself, for those that seek."""

    def __init__(self, raw: IO[bytes], notes: Notes) -> None:
        self.raw, self.notes = raw, notes
        first = _filled(self._read_raw, HEAD)
        self.compression = compression_of(first)
        self._inflated = Inflated(self.compression, first, self._read_raw, notes) if self.compression else None
        self.head = _filled(self._inflated.read, HEAD) if self._inflated is not None else first
        self._left = memoryview(self.head)

    def readinto(self, into: memoryview) -> int:
        """Fills it, but for the end of the file."""
        have = 0
        if self._left:
            have = min(len(self._left), len(into))
            into[:have] = self._left[:have]
            self._left = self._left[have:]
        while have < len(into):
            got = self._inflated.readinto(into[have:]) if self._inflated is not None else self._raw_into(into[have:])
            if not got:
                break
            have += got
        return have

    def again(self, offset: int, count: int) -> bytes:
        """Bytes of the file itself that were read before; its place does not change."""
        place = self.raw.tell()
        try:
            self.raw.seek(offset)
            return _filled(self.raw.read, count)
        finally:
            self.raw.seek(place)

    def _raw_into(self, into: memoryview) -> int:
        began = perf_counter()
        got: int = self.raw.readinto(into) or 0  # type: ignore[attr-defined]
        self._seen(into[:got], began)
        return got

    def _read_raw(self, count: int) -> bytes:
        began = perf_counter()
        data = self.raw.read(count) or b""
        self._seen(data, began)
        return data

    def _seen(self, data: bytes | memoryview, began: float) -> None:
        self.notes.reading += perf_counter() - began
        self.notes.moved(len(data))
        self.notes.hash(data)


def _filled(read: object, count: int) -> bytes:
    """So many bytes, but for the end of the file."""
    found = b""
    while len(found) < count:
        more: bytes = read(count - len(found))  # type: ignore[operator]
        if not more:
            break
        found += more
    return found


def may_write(path: str, ours: Callable[[bytes], bool], what: str, *, replace: bool) -> None:
    """Raises UserError where nothing can be written, or something stands that we did not write."""
    try:
        if not is_address(path):
            tempfile.TemporaryFile(dir=_folder(path)).close()
        known = file_stat(path)
        if known.other:
            raise UserError(f"{path} is {known.other}", "choose another name")
        if replace or not known.size:
            return
        with open_file(path) as file:
            head = file.read(OUR_HEAD)
    except FileNotFoundError as error:
        if is_address(path) or os.path.isdir(_folder(path)):
            return
        raise unwritable(path, error) from None
    except OSError as error:
        raise unwritable(path, error) from None
    if not ours(head):
        raise UserError(f"{path} is there already and is no {what}", "choose another name, or --replace")


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A file that takes the place of another when it is complete. Raises UserError where it cannot be written."""
    folder = None if is_address(path) else _folder(path)
    try:
        file = tempfile.NamedTemporaryFile(dir=folder, prefix=".unstuck-", delete=False)  # noqa: SIM115
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        with file:
            yield file.file
        _put(file.name, path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(file.name)


def unwritable(path: str, error: OSError) -> UserError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return UserError(f"{path} cannot be written: {reason}", "choose another place")


def _put(name: str, path: str) -> None:
    if is_address(path):
        system, inner = file_system(path)
        system.put_file(name, inner)
        return
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(name, 0o666 & ~mask)  # a temporary file is for its owner alone
    os.replace(name, path)


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))
