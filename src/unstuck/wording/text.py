"""How numbers and names are put into words, the same everywhere."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Collection

from ..evidence.basics import Place, Slowest
from ..evidence.live import Seen
from ..evidence.process import Failure, Process

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """371 MiB, 1.5 GiB."""
    unit = 0
    while count >= 1024 and unit < len(UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.1f} {UNITS[unit]}" if count < 10 and unit else f"{count:.0f} {UNITS[unit]}"


def duration(seconds: float) -> str:
    """850 µs, 12 ms, 3.4 s, 2 min 5 s, 9 h 2 min."""
    if not math.isfinite(seconds):
        return "? s"  # out of a report that was damaged
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.01 or not share else f"{share * 100:.1g} %"


def many(count: int, noun: str) -> str:
    """1 worker, 4 workers, 1,200 batches, 2 boundaries."""
    return f"{count:,} {noun if count == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("tch", "s", "x")) else f"{noun}s"


def signal_name(status: int) -> str:
    """SIGKILL for -9."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def ending(status: int) -> str:
    """was killed (SIGKILL); exited with code 1."""
    return f"was killed ({signal_name(status)})" if status < 0 else f"exited with code {status}"


def who(process: Process | Seen) -> str:
    """worker 1 (pid 4242) of rank 0; rank 3 (pid 12); the main process (pid 7)."""
    rank = "" if process.rank is None else f" of rank {process.rank}"
    if process.role == "worker":
        number = "" if process.worker is None else f" {process.worker}"
        return f"worker{number} (pid {process.pid}){rank}"
    if process.rank is not None:
        return f"rank {process.rank} (pid {process.pid})"
    return f"the {process.role} process (pid {process.pid})"


def line(place: Place | None) -> str:
    return "" if place is None else f"{place.file}:{place.line}"


def short(place: Place | None) -> str:
    """The file's name and line, for use inside a sentence; the full path stands beside it."""
    return "" if place is None else f"{place.file.rpartition('/')[2]}:{place.line}"


def said(failure: Failure, length: int = 300) -> str:
    """The exception as its last line of a traceback would read."""
    message = failure.message.strip().splitlines()
    first = message[0] if message else ""
    return f"{failure.type}: {first}"[:length] if first else failure.type


# Lists of processors, as the kernel writes them: `0-3,8`.
MOST = 8192  # processors that Linux can be built for
DIGITS = re.compile("[0-9]{1,9}")


def numbers(text: str) -> set[int]:
    """Of the processors in a list as the kernel writes it: `0-3,8`."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if DIGITS.fullmatch(first) and DIGITS.fullmatch(last or first):
            found.update(range(int(first), min(int(last or first) + 1, MOST)))
    return found


def in_words(processors: Collection[int]) -> str:
    """The other way round."""
    runs: list[list[int]] = []
    for one in sorted(processors):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def kind_in_words(kind: str, processor: float | None) -> str:
    """What a stage of loading does, and how much of it on a CPU core."""
    return kind + (f" ({percent(processor)} on a CPU core)" if processor is not None else "")


def slow_in_words(slowest: Slowest) -> str:
    name = slowest.item or (f"index {slowest.index}" if slowest.index is not None else "a sample")
    return f"{name} with {duration(slowest.seconds)}"
