"""Evidence and reports without secrets: nothing is judged, written or shown before it has been here."""

from __future__ import annotations

from typing import TypeVar

from ..inside.redaction import HIDDEN, redacted, secret_name
from .texts import every_text

T = TypeVar("T")


def without_secrets(what: T) -> T:
    """The same evidence, report or dict; texts lose their secrets, and all of a text that has a secret's name."""
    return every_text(what, redacted, secret_name, HIDDEN)
