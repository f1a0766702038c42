"""Ways to spoil files as disks, crashes and people with ill will do, and the bounds that reading them has to keep."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from unstuck.inside import format as f

SECONDS = 5.0  # of computing that one look may take; it takes a hundredth of one
HANGS = 60.0  # seconds by the clock after which it is taken for hanging: the machine may be busy
MEMORY = 500 << 20  # bytes that looking may add to this process at the most
AT_ALL = 2 << 30  # bytes of addresses: what wants more ends with MemoryError, and does not take the machine along
WORDS = (0, 1, 2, 7, 8, 255, 1 << 16, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, f.MASK)
VALUES = (None, 1, "x", [], {}, [1], [None], -1, 1e308, {"a": 1}, "y" * 50, True, "²", "a\nb", [[]], 1 << 70)


@contextlib.contextmanager
def within_memory() -> Iterator[None]:
    before, limits = _status("VmRSS"), resource.getrlimit(resource.RLIMIT_AS)
    Path("/proc/self/clear_refs").write_text("5")  # the highest so far is forgotten
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + AT_ALL, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert _status("VmHWM") - before < MEMORY


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


@contextlib.contextmanager
def in_time(what: object) -> Iterator[None]:
    """Also ends what catches every exception: it is not one."""

    def late(number: int, _: object) -> None:
        raise KeyboardInterrupt(f"it takes too long: {what}")

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, SECONDS), (signal.ITIMER_REAL, signal.SIGALRM, HANGS))
    before = [signal.signal(number, late) for _, number, _ in timers]
    try:
        for timer, _, seconds in timers:
            signal.setitimer(timer, seconds)
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def recording(good: bytes, chance: random.Random) -> tuple[str, bytes]:
    """One recording, spoilt in one way, and the name of that."""
    data = bytearray(good)
    how = chance.choice(("header", "header", "bits", "strings", "notes", "ring", "board", "totals", "said", "cut"))
    spoil: dict[str, Callable[[bytearray, random.Random], None]] = {
        "header": _header,
        "bits": _bits,
        "strings": _strings,
        "notes": lambda data, chance: _records(data, chance, f.S_NOTES),
        "ring": lambda data, chance: _records(data, chance, f.S_RING),
        "board": lambda data, chance: _entries(data, chance, f.S_BOARD, f.BOARD_ENTRY),
        "totals": lambda data, chance: _entries(data, chance, f.S_TOTALS, f.TOTAL_WORDS * f.WORD),
        "said": _last_words,
        "cut": lambda data, chance: data.__delitem__(slice(chance.randrange(len(data)), None)),
    }
    spoil[how](data, chance)
    return how, bytes(data)


def _word(data: bytearray, at: int, value: int) -> None:
    data[at : at + f.WORD] = (value & f.MASK).to_bytes(f.WORD, "little")


def _value(chance: random.Random) -> int:
    return chance.choice((*WORDS, chance.getrandbits(64), chance.getrandbits(20)))


def _section(data: bytearray, number: int) -> tuple[int, int]:
    at = (f.H_SECTIONS + 2 * number) * f.WORD
    return int.from_bytes(data[at : at + 8], "little"), int.from_bytes(data[at + 8 : at + 16], "little")


def _header(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 3)):
        _word(data, f.WORD * chance.randrange(1, f.H_WORDS), _value(chance))


def _bits(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 200)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _strings(data: bytearray, chance: random.Random) -> None:
    offset, _ = _section(data, f.S_STRINGS)
    used = int.from_bytes(data[f.H_STRINGS_USED * f.WORD :][: f.WORD], "little")
    for _ in range(chance.randint(1, 30)):
        data[offset + chance.randrange(max(used, 1))] = chance.choice(
            (0, 0x22, 0x7B, 0x5B, 0xFF, chance.randrange(256))
        )


def _records(data: bytearray, chance: random.Random, section: int) -> None:
    offset, count = _section(data, section)
    for _ in range(chance.randint(1, 30)):
        slot, word = chance.randrange(1, min(count, 60)), chance.randrange(1, f.RING_WORDS)
        _word(data, offset + (slot * f.RING_WORDS + word) * f.WORD, _value(chance))


def _entries(data: bytearray, chance: random.Random, section: int, size: int) -> None:
    offset, count = _section(data, section)
    for _ in range(chance.randint(1, 30)):
        _word(data, offset + f.WORD * chance.randrange(min(count, 10) * size // f.WORD), _value(chance))


def _last_words(data: bytearray, chance: random.Random) -> None:
    offset, size = _section(data, f.S_LAST_WORDS)
    length = int.from_bytes(data[f.H_LAST_WORDS * f.WORD :][: f.WORD], "little")
    said = json.loads(bytes(data[offset : offset + length]) or b'[{"how": "uncaught", "type": "X"}]')
    for failure in said:
        for name in chance.sample(sorted(failure), min(3, len(failure))):
            failure[name] = chance.choice(VALUES)
    text = json.dumps(chance.choice((said, said, said, *VALUES))).encode()
    if len(text) <= size:
        data[offset : offset + len(text)] = text
        _word(data, f.H_LAST_WORDS * f.WORD, len(text))


def text(good: bytes, chance: random.Random) -> bytes:
    """A file of lines or of JSON: bits, bytes that are no UTF-8, its end cut off, lines out of place, or nothing."""
    data = bytearray(good)
    how = chance.randrange(6)
    if how == 0:
        _bits(data, chance)
    elif how == 1:
        data[chance.randrange(len(data))] = 0xFF
    elif how == 2:
        del data[chance.randrange(len(data)) :]
    elif how == 3:
        lines = bytes(data).split(b"\n")
        chance.shuffle(lines)
        data = bytearray(b"\n".join(lines * chance.choice((1, 1, 3))))
    elif how == 4:
        data = bytearray(chance.choice((b"", b"{}", b"[]", b"null", b"\0" * 100, b"[" * 5000, b'"\xff"', b"1e999")))
    else:
        return _json(data, chance)
    return bytes(data)


def _json(data: bytearray, chance: random.Random) -> bytes:
    """Values of other kinds and sizes in one line that is still JSON."""
    lines = bytes(data).split(b"\n")
    at = chance.randrange(len(lines))
    with contextlib.suppress(ValueError):
        lines[at] = json.dumps(document(json.loads(lines[at]), chance)).encode()
    return b"\n".join(lines)


def document(known: Any, chance: random.Random) -> Any:
    """A JSON document with one to four of its values replaced: by others of the same kind, now and then of another."""
    places = list(_places(known))
    for _ in range(chance.randint(1, 4) if places else 0):
        inner: Any = known
        *way, last = chance.choice(places)
        with contextlib.suppress(KeyError, IndexError, TypeError):  # what is around it has been replaced before
            for step in way:
                inner = inner[step]
            inner[last] = _another(inner[last], chance)
    return known


def _another(old: Any, chance: random.Random) -> Any:
    if chance.random() < 0.1:
        return chance.choice(VALUES)
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return chance.choice((0, -1, 1 << 62, -(1 << 62), 10**6, (1 << 63) - 1))
    if isinstance(old, float):
        return chance.choice((0.0, -1.0, 1e308, -1e308, 1e-300, float("nan"), float("inf")))
    if isinstance(old, str):
        return chance.choice(("", "\x1b[2J", "x" * 10_000, "[red]", "[/]", "a\nb", "\ud800", "²", "../../x"))
    if isinstance(old, list):
        return chance.choice(([], old * 3))
    return chance.choice((None, {}, 0, 1, "x", -1)) if old is None else chance.choice(({}, old))


def _places(known: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = known.items() if isinstance(known, dict) else enumerate(known) if isinstance(known, list) else ()
    for step, value in inside:
        yield (*way, step)
        yield from _places(value, (*way, step))
