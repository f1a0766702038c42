"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

RUNS = Path("unstuck-runs")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add_view_arguments(parser: argparse.ArgumentParser) -> None:
    """How a verdict is shown."""
    parser.add_argument("--verbose", action="store_true", help="show all evidence, and what the recording cost")
    parser.add_argument("--plain", action="store_true", help="no colours and no links (also: NO_COLOR=1)")


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1 <= number <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 86400")
    return number


def batches(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of batches, 1 or more")
    return int(text)


def above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 64G or 512M")
    return int(float(match[1]) * UNITS[match[2].upper()])


def newest_run(base: Path = RUNS) -> Path | None:
    """Where no run is named. Others may be removed from the folder at the same time."""
    return max(_by_age(base), default=(0.0, None))[1]


def _by_age(base: Path) -> list[tuple[float, Path]]:
    found = []
    try:
        for folder in base.iterdir():
            try:
                found.append(((folder / "run.json").lstat().st_mtime, folder))
            except OSError:  # no run, or one that has just been removed
                continue
    except OSError:
        pass
    return found
