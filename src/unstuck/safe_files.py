"""Opens files that somebody else may have made: no link followed, no FIFO waited for, no size believed.

Run folders come from colleagues, shared disks and other users. A path in one of them may be a link to a file of ours, a
FIFO that nobody writes to, a device without an end or a sparse file of terabytes. Whatever is read or written there
goes through here.

A path is looked up anew each time, and whoever may write to a folder above it may put another in its place meanwhile.
So a watcher holds its run folder open: what lies below is then reached from that very folder, wherever it is moved.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

LARGEST_TEXT = 64 << 20  # bytes of one JSON document: the report on 1,000 ranks has 13 MB
# About the bytes of memory that a document may take until it is judged, and each object, list, text and value in it:
# `{"a":1}` takes forty times its length.
MOST_MEMORY = 300_000_000
OBJECT, LIST, TEXT, VALUE = 300, 160, 150, 50
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
INTO = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # a folder, to reach what is in it
_NEVER = os.O_NOFOLLOW | os.O_CLOEXEC  # through a link; into a program that we start

_held: dict[str, int] = {}  # folders by their paths, and a descriptor of each


class NotPlainError(OSError):
    """It is a link, a FIFO, a device or larger than anything of ours."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(None, reason, str(path))

    def __str__(self) -> str:
        return f"{self.filename} is {self.strerror}"


def hold(folder: str | Path, fd: int) -> None:
    """From now on, what this process writes below this path goes into the folder that this is a descriptor of."""
    let_go(folder)
    _held[os.fspath(folder)] = fd


def let_go(folder: str | Path) -> None:
    fd = _held.pop(os.fspath(folder), None)
    if fd is not None:
        os.close(fd)


def check_held(folder: str | Path) -> None:
    """Raises OSError where another folder lies by now under the path of one that is held."""
    fd = _held.get(os.fspath(folder))
    if fd is not None and not os.path.samestat(os.fstat(fd), os.lstat(folder)):
        raise NotPlainError(folder, "another folder than the one that was made for the run")


@contextlib.contextmanager
def reached(path: str | Path) -> Iterator[tuple[int | None, str]]:
    """A file's folder as a descriptor, and its name there. None: no folder above it is held, the name is a path."""
    path = os.fspath(path)
    held = next((folder for folder in _held if path.startswith(f"{folder}/")), None)
    if held is None:
        yield None, path
        return
    *parts, name = path[len(held) :].strip("/").split("/")
    with contextlib.ExitStack() as opened:
        above = _held[held]
        for part in parts:
            above = os.open(part, INTO, dir_fd=above)
            opened.callback(os.close, above)
        yield above, name


def open_plain(path: str | Path, *, largest: int | None = None, follow: bool = False) -> int:
    """A descriptor for reading a regular file; `follow` where the user named the file himself."""
    # First only the name, for its type: to open a device, a watchdog or a tape, is to act on it.
    with reached(path) as (above, last):
        name = os.open(last, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), dir_fd=above)
    try:
        about = os.fstat(name)
        if stat.S_ISREG(about.st_mode) and (largest is None or about.st_size <= largest):
            return os.open(f"/proc/self/fd/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(name)
    if stat.S_ISREG(about.st_mode):
        raise NotPlainError(path, f"too large to be read ({about.st_size:,} bytes)")
    raise NotPlainError(path, _kind(about.st_mode))


def read_plain(path: str | Path, *, largest: int = LARGEST_TEXT, follow: bool = False) -> bytes:
    """All of a regular file, never more than `largest` bytes even while it grows."""
    with os.fdopen(open_plain(path, largest=largest, follow=follow), "rb") as file:
        return file.read(largest)


def read_document(path: str | Path, *, largest: int = LARGEST_TEXT, follow: bool = False) -> bytes:
    """A JSON document that can be held in memory once it is decoded."""
    data = read_plain(path, largest=largest, follow=follow)
    if in_memory(data) > MOST_MEMORY:
        raise NotPlainError(path, f"too full to be read ({len(data):,} bytes)")
    return data


def in_memory(data: bytes) -> int:
    """About how many bytes a JSON document takes once it is decoded."""
    texts = data.count(b'"') // 2 - data.count(b'":')
    taken = OBJECT * data.count(b"{") + LIST * data.count(b"[") + VALUE * data.count(b",") + TEXT * max(texts, 0)
    return len(data) + taken


def refuse_link(folder: str | Path) -> None:
    """A folder inside of a run folder is one of ours, or none: a link would lead to files of somebody else's."""
    try:
        mode = os.lstat(folder).st_mode
    except OSError:  # it is not there, and nothing will be found in it
        return
    if not stat.S_ISDIR(mode):
        raise NotPlainError(folder, _kind(mode))


def write_private(path: str | Path, data: bytes) -> None:
    """Replace a file as a whole, readable by its owner alone. A link in its place is replaced, not followed."""
    with reached(path) as (above, name):
        half = f"{name}.{os.getpid()}.half"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(half, dir_fd=above)
        fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NEVER, PRIVATE_FILE, dir_fd=above)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            os.replace(half, name, src_dir_fd=above, dst_dir_fd=above)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(half, dir_fd=above)
            raise


def create_private(path: str | Path) -> int:
    """A descriptor for writing to a file that was not there. Raises FileExistsError."""
    with reached(path) as (above, name):
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NEVER, PRIVATE_FILE, dir_fd=above)


def append_private(path: str | Path, *, flags: int = os.O_WRONLY | os.O_APPEND) -> int:
    """A descriptor for appending to a regular file of ours, which is made where there is none."""
    with reached(path) as (above, name):
        fd = os.open(name, flags | os.O_CREAT | os.O_NONBLOCK | _NEVER, PRIVATE_FILE, dir_fd=above)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotPlainError(path, "not a file")
    return fd


def make_folder(path: str | Path) -> None:
    """For its owner alone. It may be there already; below a folder that is held, the one above it is."""
    with reached(path) as (above, name):
        if above is None:
            os.makedirs(name, PRIVATE_FOLDER, exist_ok=True)
            return
        try:
            os.mkdir(name, PRIVATE_FOLDER, dir_fd=above)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
                raise


def move(path: str | Path, to: str | Path) -> None:
    with reached(path) as (above, name), reached(to) as (there, other):
        os.replace(name, other, src_dir_fd=above, dst_dir_fd=there)


def remove(path: str | Path) -> None:
    with reached(path) as (above, name):
        os.unlink(name, dir_fd=above)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_ISLNK: "a link, which is not followed",
        stat.S_ISDIR: "a folder, not a file",
        stat.S_ISFIFO: "a FIFO, not a file",
        stat.S_ISSOCK: "a socket, not a file",
        stat.S_ISCHR: "a device, not a file",
        stat.S_ISBLK: "a device, not a file",
    }
    return next((name for test, name in kinds.items() if test(mode)), "not a file")
