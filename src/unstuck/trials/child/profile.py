"""Where a thread spends its time, by looks at its stack from another thread. Only while there are no workers."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

EVERY = 0.02  # seconds
DEEP = 60  # calls
LIBRARY = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", f"{os.sep}lib{os.sep}python3")
FETCHES = os.path.join("torch", "utils", "data", "_utils", "fetch.py")
SHARE = 0.5  # of the looks: the innermost call that so much goes through is where the work is


class Profile:
    """Looks at the thread that made it."""

    def __init__(self) -> None:
        self._of = threading.get_ident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._stacks: list[list[tuple[str, str, int]]] = []

    def __enter__(self) -> Profile:  # noqa: PYI034
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()  # before any worker is forked

    def _look(self) -> None:
        while not self._stop.wait(EVERY):
            frame = sys._current_frames().get(self._of)
            if frame is not None:
                self._stacks.append(_calls(frame))

    def told(self) -> dict[str, Any] | None:
        """The innermost function that most of loading goes through, and the user's line that it is called at."""
        loading = [one for one in self._stacks if one]
        if len(loading) < 5:  # looks
            return None
        found = _innermost(loading)
        if found is None:
            return None
        depth, share, stack = found
        function, file, line = stack[depth]
        users = [one for one in stack[: depth + 1] if not any(part in one[1] for part in LIBRARY)]
        at = users[-1] if users else (function, file, line)
        return {"function": function, "file": file, "line": line, "share": share, "looks": len(loading),
                "user": {"function": at[0], "file": at[1], "line": at[2]}}  # fmt: skip


def _calls(frame: FrameType | None) -> list[tuple[str, str, int]]:
    """From the fetch of a batch inwards; empty: it was doing something else."""
    found: list[tuple[str, str, int]] = []
    while frame is not None and len(found) < DEEP:
        code = frame.f_code
        if code.co_filename.endswith(FETCHES):
            return found[::-1]
        found.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno or 0))
        frame = frame.f_back
    return []


def _innermost(stacks: list[list[tuple[str, str, int]]]) -> tuple[int, float, list[tuple[str, str, int]]] | None:
    """Down from the fetch, always into the call that most looks are in, as long as it has enough of them."""
    found, among, depth = None, stacks, 0
    while True:
        by: dict[tuple[str, str], list[list[tuple[str, str, int]]]] = {}
        for stack in among:
            if len(stack) > depth:
                by.setdefault(stack[depth][:2], []).append(stack)
        most = max(by.values(), key=len, default=[])
        if len(most) < SHARE * len(stacks):
            return found
        lines: dict[int, list[list[tuple[str, str, int]]]] = {}
        for stack in most:
            lines.setdefault(stack[depth][2], []).append(stack)
        found, among, depth = (depth, len(most) / len(stacks), max(lines.values(), key=len)[0]), most, depth + 1
