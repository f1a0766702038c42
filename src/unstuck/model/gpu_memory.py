"""What torch's own words say about a GPU without memory: the numbers in its message, as bytes."""

from __future__ import annotations

import re

import msgspec

OUT = re.compile(r"\b(?:CUDA|HIP|XPU)(?: error:)? out of memory")
SIZE = r"([\d.]+) (bytes|KiB|MiB|GiB|TiB)"
UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# Until torch 2.0: "(GPU 0; 10.92 GiB total capacity; 8.57 GiB already allocated; 1 GiB free; 9 GiB reserved in …".
OLD = re.compile(
    rf"GPU (\d+); {SIZE} total capacity; {SIZE} already allocated; {SIZE} free; {SIZE} (?:reserved|cached)"
)
TRIED = re.compile(rf"Tried to allocate {SIZE}")
CARD = re.compile(rf"GPU (\d+) has a total capaci?ty of {SIZE} of which {SIZE} is free")  # 2.1 wrote "capacty"
PROCESS = re.compile(rf"(?:Process (\d+)|this process) has {SIZE} memory in use")
ALLOWED = re.compile(rf"{SIZE} allowed")
ALLOCATED = re.compile(rf"{SIZE} is allocated by PyTorch")
RESERVED = re.compile(rf"{SIZE} is reserved by PyTorch but unallocated")
SETTING = re.compile(r"PYTORCH_\w*ALLOC_CONF")


class Shortage(msgspec.Struct, frozen=True):
    """Numbers of one message. None: it does not say."""

    tried: int | None = None
    gpu: int | None = None
    total: int | None = None
    free: int | None = None
    allocated: int | None = None  # by torch, in use
    reserved: int | None = None  # by torch, and not in use: pieces between what is
    own: int | None = None  # of this process in all
    others: dict[int, int] = {}  # by pid
    allowed: int | None = None  # what the program has limited itself to
    setting: str = "PYTORCH_CUDA_ALLOC_CONF"  # torch 2.13 knows another name too; older ones only this


def is_out_of_memory(text: str) -> bool:
    return OUT.search(text) is not None


def shortage(text: str) -> Shortage:
    old, card, setting = OLD.search(text), CARD.search(text), SETTING.search(text)
    said = Shortage(
        tried=_size(TRIED.search(text)),
        allocated=_size(ALLOCATED.search(text)),
        reserved=_size(RESERVED.search(text)),
        allowed=_size(ALLOWED.search(text)),
        setting=setting[0] if setting is not None else Shortage().setting,
    )
    if old is not None:
        total, allocated, free, reserved = (_bytes(old[at], old[at + 1]) for at in (2, 4, 6, 8))
        numbers = {"total": total, "allocated": allocated, "free": free, "reserved": reserved - allocated}
        return msgspec.structs.replace(said, gpu=int(old[1]), **numbers)
    if card is not None:
        total, free = (_bytes(card[at], card[at + 1]) for at in (2, 4))
        said = msgspec.structs.replace(said, gpu=int(card[1]), total=total, free=free)
    return _with_processes(said, text)


def _with_processes(said: Shortage, text: str) -> Shortage:
    """In a container torch does not know its own pid as the driver does, and names itself like any other process."""
    own, others = None, {}
    for match in PROCESS.finditer(text):
        if match[1] is None:
            own = _bytes(match[2], match[3])
        else:
            others[int(match[1])] = _bytes(match[2], match[3])
    at_least = (said.allocated or 0) + (said.reserved or 0)
    if own is None:
        itself = min((pid for pid in others if others[pid] >= at_least), key=lambda pid: others[pid], default=None)
        own = others.pop(itself) if itself is not None else None
    return msgspec.structs.replace(said, own=own, others=others)


def _size(match: re.Match[str] | None) -> int | None:
    return _bytes(match[1], match[2]) if match is not None else None


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * UNITS[unit])
