"""Opens files that somebody else may have made: no link followed, no FIFO waited for, no size believed.

Run folders come from colleagues, shared disks and other users. A path in one of them may be a link to a file of ours, a
FIFO that nobody writes to, a device without an end or a sparse file of terabytes. Whatever is read or written there
goes through here.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

LARGEST_TEXT = 256 << 20  # bytes of one JSON document or journal: far above what 1,000 ranks come to
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


class NotPlainError(OSError):
    """It is a link, a FIFO, a device or larger than anything of ours."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(None, reason, str(path))

    def __str__(self) -> str:
        return f"{self.filename} is {self.strerror}"


def open_plain(path: str | Path, *, largest: int | None = None, follow: bool = False) -> int:
    """A descriptor for reading a regular file; `follow` where the user named the file himself."""
    # First only the name, for its type: to open a device, a watchdog or a tape, is to act on it.
    name = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
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


def write_private(path: str | Path, data: bytes) -> None:
    """Replace a file as a whole, readable by its owner alone. A link in its place is replaced, not followed."""
    half = f"{path}.{os.getpid()}.half"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(half)
    fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.replace(half, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(half)
        raise


def append_private(path: str | Path) -> int:
    """A descriptor for appending to a regular file of ours, which is made where there is none."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(path, flags, PRIVATE_FILE)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotPlainError(path, "not a file")
    return fd


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
