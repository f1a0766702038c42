"""Ctrl-C and its like: at any moment, and nothing is left behind."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
PR_SET_PDEATHSIG = 1


def heard() -> None:
    """SIGTERM and a lost terminal end a command like Ctrl-C does: what it has started is ended first.

    Once: who presses it again is impatient, and would only leave something behind.
    """

    def leave(number: int, _: FrameType | None) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell has it for what runs in the background
            signal.signal(number, leave)


@contextmanager
def uninterrupted() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Signals wait, but for the part that is given back: between starting and ending something, nothing may come."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    @contextmanager
    def interruptible() -> Iterator[None]:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    try:
        yield interruptible
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def alone() -> None:
    """In a child that was forked: a session of its own, signals as a new program has them, and no life after ours."""
    os.setsid()
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
