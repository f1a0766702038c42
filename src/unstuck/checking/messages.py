"""What a reader and whoever sent it say to each other: messages on two pipes, each with its length in front."""

from __future__ import annotations

import msgspec

from ..evidence.data import DataFile
from .noting import Wish

LENGTH = 4


class Task(msgspec.Struct, tag="task"):
    """Files to read, one after the other, and what a manifest says of the members of some of them."""

    paths: list[str]
    wish: Wish
    expected: dict[str, bytes] = {}  # CRC-32 of each member, in their order, four bytes each


class Moved(msgspec.Struct, tag="moved"):
    """So many bytes more."""

    count: int


class Read(msgspec.Struct, tag="read"):
    """A file, read."""

    file: DataFile
    digest: str = ""  # algorithm:hex, of the whole file
    digests: bytes = b""


Message = Moved | Read
_encoder = msgspec.msgpack.Encoder()
_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_tasks = msgspec.msgpack.Decoder(Task)


def packed(message: Task | Message) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(LENGTH, "little") + body


def task_of(body: bytes) -> Task:
    return _tasks.decode(body)


class Inbox:
    """Messages out of pieces of a pipe."""

    def __init__(self) -> None:
        self._held = bytearray()

    def add(self, data: bytes) -> list[Message]:
        self._held += data
        found, at = [], 0
        while len(self._held) - at >= LENGTH:
            end = at + LENGTH + int.from_bytes(self._held[at : at + LENGTH], "little")
            if len(self._held) < end:
                break
            found.append(_messages.decode(self._held[at + LENGTH : end]))
            at = end
        del self._held[:at]
        return found
