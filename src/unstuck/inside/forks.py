"""What a forked child knows of its parent's threads: none of them came along, but every lock that they held."""

from __future__ import annotations

import functools
import os
import threading

from .format import THREAD
from .holdings import attributes_of

NAMES = 8
LONGEST = 80

_threads: dict[int, threading.Thread] = {}  # while a fork is under way

# No Python is run before the fork: what a signal handler raises inside such a callback is lost to the user.
os.register_at_fork(
    before=functools.partial(_threads.update, getattr(threading, "_active", {})), after_in_parent=_threads.clear
)


def inherited() -> tuple[int, list[str]]:
    """In the child: how many threads its parent had, and the names of some that were not the main one."""
    found = [one for one in _threads.values() if _name(one) != THREAD]
    _threads.clear()
    others = [one for one in found if type(one).__name__ != "_MainThread"]
    return len(found), [_name(one)[:LONGEST] for one in others[:NAMES]]


def _name(thread: threading.Thread) -> str:
    return str(attributes_of(thread).get("_name", ""))
