"""Logging libraries that are set up: which, in which mode, writing where."""

from __future__ import annotations

import json
from types import FrameType
from typing import Any

from .describe import user_line
from .format import H_ROLE, ROLE_MAIN, Kind
from .process import process
from .recorder import clock
from .redaction import redacted

LONGEST = 500  # characters of a folder or an address
SET_UPS = 200  # that are noted; a sweep in one process has as many as it likes
_noted: list[None] = []


def set_up(name: str, facts: dict[str, Any], frame: FrameType | None) -> None:
    """Note what a logger will do. Numbers and short texts only; an address is given without what it must not tell."""
    recorder = process.recorder
    if recorder is None or recorder.words[H_ROLE] != ROLE_MAIN or len(_noted) >= SET_UPS:
        return
    _noted.append(None)
    known = {key: redacted(value)[:LONGEST] if type(value) is str else value for key, value in facts.items() if value}
    text = json.dumps({"name": name, **known, "where": user_line(frame)}, ensure_ascii=False)
    recorder.note(Kind.LOGGER, recorder.intern(name), clock(), 0, recorder.intern(text))


def plain(address: object) -> str:
    """Scheme, host and port: neither who asks, nor with which password, nor what for."""
    if type(address) is not str or "://" not in address:
        return ""
    scheme, _, rest = address.partition("://")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
    return f"{scheme}://{host}"
