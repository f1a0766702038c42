"""One line on stderr that says what is being done, while it is done; nothing where nobody looks."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.status import Status
from rich.text import Text

from ..wording.printable import printable


class Progress:
    """Call it with what is going on. The line is gone when the work is."""

    def __enter__(self) -> Progress:  # noqa: PYI034  (Self is not in Python 3.10)
        console = Console(stderr=True, highlight=False, emoji=False)
        self._status: Status | None = console.status("", spinner="dots") if console.is_terminal else None
        if self._status is not None:
            self._status.start()
        return self

    def __call__(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(printable(text)))
        elif "nothing moves" in text:  # the one wait that a script's log should explain
            print(f"unstuck: {printable(text)}", file=sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
