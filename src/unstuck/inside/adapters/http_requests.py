"""Requests over HTTP, from the moment they are sent until the response begins: urllib, urllib3 and requests alike.

All of them end in `http.client.HTTPConnection`. The name tells method, host and port; neither path, query nor header.
"""

from __future__ import annotations

import functools
import threading
import weakref
from _thread import get_ident
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, around, is_library, replace, together
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

    def keep(self, begun: Open, args: Any, _kwargs: Any, _result: Any) -> None:
        self.by, self.begun = weakref.ref(args[0]), begun
        begun.recorder.board(calls.slot, Kind.CALL, begun.key, clock())

    def of(self, _frame: FrameType, args: Any, _kwargs: Any) -> Open | None:
        """Goes on with it."""
        begun, by = self.begun, self.by
        if begun is None or by is None or by() is not args[0]:
            return None
        self.by = self.begun = None
        if calls.open or begun.recorder is not process.recorder or get_ident() != threading.main_thread().ident:
            return None
        calls.open.add(begun)
        begun.recorder.board(calls.slot, Kind.CALL, begun.key, begun.start, 1)
        return begun


def install(module: ModuleType, guard: Guard) -> Undo:
    connection = module.HTTPConnection
    part = functools.partial(around, guard=guard, fail=Open.ends, leave=calls.open.discard)
    return together(  # the first connects, and sends the head and a body that is there already
        replace(connection, "endheaders", functools.partial(part, begin=_begin, measure=sent.keep)),
        replace(connection, "getresponse", functools.partial(part, begin=sent.of, end=Open.ends)),
    )


def _begin(frame: FrameType, args: Any, _kwargs: Any) -> Open | None:
    connection = args[0]
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
