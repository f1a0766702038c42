"""What a check and the process that speaks to Ray for it say to each other."""

from __future__ import annotations

import msgspec

from ..check import Read
from ..workers import Task


class Errand(msgspec.Struct, frozen=True):
    """A task, with the number under which its files come back."""

    number: int
    task: Task


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """The cluster works for us; said again when it has grown."""

    cpus: int
    nodes: int


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """It does not, or no longer: what happened, and what to do."""

    what: str
    remedy: str


class Brought(msgspec.Struct, frozen=True, tag="brought"):
    """What was seen of the files of an errand, in their order."""

    number: int
    reads: list[Read]


Said = Joined | Refused | Brought
_said: msgspec.msgpack.Decoder[Said] = msgspec.msgpack.Decoder(Said)
_errands = msgspec.msgpack.Decoder(Errand)
_reads = msgspec.msgpack.Decoder(list[Read])
encode = msgspec.msgpack.Encoder().encode


def said_in(body: bytes) -> Said:
    return _said.decode(body)


def errand_in(body: bytes) -> Errand:
    return _errands.decode(body)


def reads_in(body: bytes) -> list[Read]:
    return _reads.decode(body)
