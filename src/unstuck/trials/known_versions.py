"""Versions of libraries that are known to be bad for loaders: few, each with the public thread that shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..evidence.trial import Note


class Known(NamedTuple):
    """Versions from `first` on, up to and without `fixed`."""

    library: str
    first: str
    fixed: str
    text: str
    source: str


OPENCV = (
    "opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless",
)  # fmt: skip
KNOWN = (
    Known(
        "mkl", "2023.1.0", "2023.1.1",
        "where numpy is imported before torch, it binds the process to one processor, and all workers inherit that: "
        "import torch first, or install another version of mkl",
        "pytorch/pytorch#101188",
    ),
    Known(
        "torch", "2.0.0", "2.0.1",
        "default_collate and pin_memory became slow for batches with many small objects or bytes; 2.0.1 mends it",
        "pytorch/pytorch#98348, pytorch/pytorch#98349",
    ),
    Known(
        "torch", "1.7.0", "1.8.0",
        "a loader with pin_memory=True and persistent_workers=True dies at its second pass: leave one of them out",
        "pytorch/pytorch#48370",
    ),
    *(
        Known(
            one, "0", "3.4.3",
            "its thread pool does not survive a fork, and workers hang in cv2: call cv2.setNumThreads(0), or install a "
            "newer version",
            "pytorch/pytorch#45198",
        )
        for one in OPENCV
    ),
)  # fmt: skip


def notes_on(versions: Mapping[str, str]) -> list[Note]:
    """Of those that are installed."""
    found = [(one, versions[one.library]) for one in KNOWN if one.library in versions]
    return [Note(f"{one.library} {version}", one.text, one.source) for one, version in found if _within(version, one)]


def _within(version: str, known: Known) -> bool:
    return _parts(known.first) <= _parts(version) < _parts(known.fixed)


def _parts(version: str) -> tuple[int, ...]:
    """`2.0.0+cu118` is 2.0.0; so are its release candidates, which have the same faults."""
    numbers = re.match(r"\d+(?:\.\d+)*", version.strip())
    found = [int(part) for part in numbers[0].split(".")] if numbers else []
    return tuple([*found, 0, 0, 0][: max(len(found), 3)])
