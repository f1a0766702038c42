"""A log file: appended to, bounded in size, and never a reason to stop anything."""

from __future__ import annotations

import os
import time

from ..safe_files import append_private, read_plain, write_private

LIMIT = 4 << 20  # bytes: then what there is moves into an older file
KEPT = 3  # older files of each: four times the limit at the most, 16 MiB for each rank and for the main log


class LogFile:
    """Older parts are called NAME.1.log (the newest of them), NAME.2.log and so on, so that `NAME*.log` means all.

    They are copied away and the file is cut to nothing, not renamed: a `tail -f` that is running goes on.
    """

    def __init__(self, path: str, limit: int = LIMIT, kept: int = KEPT) -> None:
        """Raises OSError where the file cannot be made."""
        self.path = path
        self.failed: OSError | None = None  # why the newest write came to nothing
        self._limit, self._kept = limit, kept
        self._dropped = 0  # bytes
        self._fd = append_private(path)
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        """All of it, or nothing is said: the disk may be full, and the run goes on."""
        if self._size and self._size + len(data) > self._limit:
            self._rotate()
        if self._dropped:
            data = f"[unstuck] {self._dropped:,} bytes are missing here: {self._why()}\n".encode() + data
        done = self._put(data)
        if done < len(data):
            self._dropped += len(data) - done
        elif self._dropped:
            self._dropped, self.failed = 0, None

    def _put(self, data: bytes) -> int:
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError as error:
            self.failed = error
        self._size += done
        return done

    def _rotate(self) -> None:
        try:
            for number in range(self._kept - 1, 0, -1):
                if os.path.exists(older(self.path, number)):
                    os.replace(older(self.path, number), older(self.path, number + 1))
            write_private(older(self.path, 1), read_plain(self.path))
        except OSError as error:  # no room for a copy: the newest lines are worth more than the oldest
            self.failed = error
            self._dropped += self._size
        try:
            os.ftruncate(self._fd, 0)
        except OSError as error:
            self.failed = error
        self._size = os.fstat(self._fd).st_size

    def _why(self) -> str:
        return (self.failed and self.failed.strerror) or "they could not be written"

    def close(self) -> None:
        os.close(self._fd)


def older(path: str, number: int) -> str:
    return f"{path.removesuffix('.log')}.{number}.log"


def stamp(at: float) -> str:
    """The time in a log's name: runs do not overwrite each other."""
    return time.strftime("%Y%m%d_%H%M%S", time.localtime(at))
