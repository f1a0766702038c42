"""What a Ray worker does on its node: has files read by a process of its own, as a check on one machine does."""

from __future__ import annotations

import errno
import os
from functools import cache

import msgspec

from ..check import Read
from ..workers import Workers, task_of
from .words import encode

ABSENT = os.strerror(errno.ENOENT)


def work(body: bytes) -> bytes:
    """A task, packed, for what was seen of its files, packed. A file that kills its reader does not kill the worker."""
    node = os.uname().nodename
    return encode([_placed(one, node) for one in _crew().read([task_of(body)], lambda _: None)])


@cache
def _crew() -> Workers:
    """Lives as long as the Ray worker, which does one task after the other; its reader dies with it."""
    return Workers(1)


def _placed(read: Read, node: str) -> Read:
    """A file that is here and not there is no damage: it says where it was looked for."""
    if read.file.unread != ABSENT:
        return read
    why = f"not on node {node}: share its folder between the nodes, or give an address that all of them reach (s3://…)"
    return msgspec.structs.replace(read, file=msgspec.structs.replace(read.file, unread=why))
