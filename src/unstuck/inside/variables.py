"""The local variables of a call that goes on or is suspended, read so that none of them lives longer for it.

Before Python 3.13, `frame.f_locals` of a function is a dict that the frame makes and keeps: whatever it holds lives on
until the call ends, and a generator may be suspended for a whole pass. So it is emptied at once. It is the same dict
that `locals()` gives and that a debugger writes into: where one of these may have it, it is left alone, and so is what
`exec` has put there.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

OWN_NAMES = 1  # flag of a code object whose locals are no dict: a function's
TAKES_THEM = frozenset(("locals", "vars"))
OURS_ALONE = 3  # references to the dict: the frame's, ours, and the argument of the function that counts them


def variables(frame: FrameType) -> dict[str, Any]:
    """A copy by name. Empty where it cannot be had without touching what is the user's."""
    if sys.version_info >= (3, 13) or not frame.f_code.co_flags & OWN_NAMES:
        return dict(frame.f_locals)
    code = frame.f_code
    if frame.f_trace is not None or not TAKES_THEM.isdisjoint(code.co_names):
        return {}
    kept = frame.f_locals
    found = dict(kept)
    if sys.getrefcount(kept) <= OURS_ALONE:
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            kept.pop(name, None)
    return found
