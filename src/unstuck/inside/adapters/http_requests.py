"""Requests over HTTP, from the moment they are sent until the response begins: urllib, urllib3 and requests alike.

All of them end in `http.client.HTTPConnection`. The name tells method, host and port; neither path, query nor header.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from _thread import get_ident
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, is_library, replace, together
from ..core.process import process
from ..core.recorder import clock
from ..format import Kind
from ..side_work.calls import Open, begin, calls

MODULES = ("http.client",)
OWES = (Kind.CALL,)


class Sent:
    """The request that was sent last, whose response has not been asked for yet.

    Nothing is said to go on in between: a response that nobody asks for would go on for ever.
    """

    def __init__(self) -> None:
        self.by: weakref.ref[Any] | None = None
        self.begun: Open | None = None

    def keep(self, connection: Any, begun: Open) -> None:
        self.by, self.begun = weakref.ref(connection), begun
        begun.recorder.board(calls.slot, Kind.CALL, begun.key, clock())

    def of(self, connection: Any, _: FrameType) -> Open | None:
        """Goes on with it."""
        begun, by = self.begun, self.by
        if begun is None or by is None or by() is not connection:
            return None
        self.by = self.begun = None
        if calls.open or begun.recorder is not process.recorder or get_ident() != threading.main_thread().ident:
            return None
        calls.open = True
        begun.recorder.board(calls.slot, Kind.CALL, begun.key, begun.start, 1)
        return begun


def install(module: ModuleType, guard: Guard) -> Undo:
    connection = module.HTTPConnection
    return together(  # the first connects, and sends the head and a body that is there already
        replace(connection, "endheaders", lambda original: _part(original, _begin, sent.keep, guard)),
        replace(connection, "getresponse", lambda original: _part(original, sent.of, _end, guard)),
    )


def _part(original: Any, begins: Callable[..., Open | None], ends: Callable[..., None], guard: Guard) -> Any:
    """One of the two calls that a request is made of."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        begun = guard.result(begins, self, sys._getframe(1))
        try:
            result = original(self, *args, **kwargs)
        except Exception as error:
            if begun is not None:
                guard.quietly(begun.ends, error)
            clean(error)
            raise
        finally:  # also after Ctrl-C
            if begun is not None:
                calls.open = False
        if begun is not None:
            guard.quietly(ends, self, begun)
        return result

    return call


def _end(_: Any, begun: Open) -> None:
    begun.ends()


def _begin(connection: Any, frame: FrameType) -> Open | None:
    method = getattr(connection, "_method", None)
    if type(method) is not str or method == "CONNECT":
        return None
    host = getattr(connection, "_tunnel_host", None) or connection.host
    port = getattr(connection, "_tunnel_port", None) or connection.port
    return begin("http", f"{method} {host}:{port}", _caller(frame))


def _caller(frame: FrameType | None) -> FrameType | None:
    """Out of the libraries' code: by its frame, the lines that call are told apart."""
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


sent = Sent()
