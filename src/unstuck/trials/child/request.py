"""Reads what is asked for, does it, and keeps what was seen, whatever happens."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from .rungs import RUNGS

REFUSED = 3  # exit code: the target cannot be used, and the facts say why


def main(path: str) -> int:
    with open(path) as file:
        request = json.load(file)
    if "secret" in request:  # arguments that must not stay on the disk
        with open(request["secret"]) as file:
            request["kwargs"] = json.load(file)
        os.unlink(request["secret"])
    del path, file  # what frames hold when something fails is taken for the files it was about
    facts = Facts(request["facts"])
    try:
        _rung(request["what"])(request, facts)
    except Refused as refused:
        facts.put(refused={"what": refused.what, "do": refused.do})
        return REFUSED
    except Exception:
        facts.put(traceback=_clean(traceback.format_exc()))
        raise  # so that it is recorded as what it is: an uncaught exception
    facts.put(done=True)
    sys.stdout.flush()
    return 0


def private(path: str, flags: int) -> int:
    """Opens a file for its owner alone: facts hold what the user's code has said."""
    return os.open(path, flags, 0o600)


class Facts:
    """What was seen so far, in a file: a process that is killed has left all of it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: dict[str, Any] = {}

    def seen(self, name: str, otherwise: Any = None) -> Any:
        return self._seen.get(name, otherwise)

    def put(self, **facts: Any) -> None:
        self._seen.update(facts)
        beside = f"{self._path}.{os.getpid()}"
        with open(beside, "w", opener=private) as file:
            json.dump(self._seen, file)
        os.replace(beside, self._path)

    def beside(self, name: str) -> Facts:
        """Another file of facts: of a process that this one starts."""
        return Facts(f"{self._path}.{name}")

    def read(self) -> dict[str, Any]:
        """What another process has put there."""
        with open(self._path) as file:
            found: dict[str, Any] = json.load(file)
        return found


class Refused(Exception):  # noqa: N818  (it is a reason, not an error)
    """What is the matter with it, and what to do."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(what)
        self.what = what
        self.do = do


def _rung(what: str) -> Callable[[dict[str, Any], Facts], None]:
    """Only its own file is imported, and what that needs."""
    module, _, name = RUNGS[what].partition(".")
    rung: Callable[[dict[str, Any], Facts], None] = getattr(
        importlib.import_module(f".rungs.{module}", __package__), name
    )
    return rung


def _clean(text: str) -> str:
    """Without secrets, by the recording's own redaction; where nothing is recorded, whoever asked does it."""
    redaction = sys.modules.get("_unstuck_inside.redaction")
    return text if redaction is None else str(redaction.redacted(text))
