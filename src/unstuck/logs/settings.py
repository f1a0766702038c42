"""What the user asked of the text logs: by options of `unstuck run`, or by variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..errors import UserError
from ..inside.format import SAMPLE_TIMES

LEVEL, EVERY, VALIDATION_EVERY = "UNSTUCK_LOG_LEVEL", "UNSTUCK_LOG_EVERY", "UNSTUCK_LOG_VALIDATION_EVERY"
LEVELS = ("DEBUG", "INFO")
MOST = 1_000_000_000


class Settings(NamedTuple):
    """Nothing of this changes what is recorded, or what it costs the training."""

    level: str = "DEBUG"  # INFO: no progress of batches and samples
    every: int = 100  # training batches between two lines
    validation_every: int = 20
    samples: bool = False  # a line about every sample and stage; that one does change what is recorded
    quiet: bool = False  # the training's own output goes into a file


def from_variables(variables: Mapping[str, str]) -> Settings:
    usual = Settings()
    return Settings(
        level=level(variables.get(LEVEL) or usual.level, LEVEL),
        every=number(variables.get(EVERY) or str(usual.every), EVERY),
        validation_every=number(variables.get(VALIDATION_EVERY) or str(usual.validation_every), VALIDATION_EVERY),
        samples=variables.get(SAMPLE_TIMES, "") not in ("", "0"),
    )


def level(text: str, name: str) -> str:
    if text.upper() not in LEVELS:
        raise UserError(f"{name} is {text!r}", f"it can be {' or '.join(LEVELS)}")
    return text.upper()


def number(text: str, name: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise UserError(f"{name} is {text!r}", "it is a number of batches, 1 or more")
    return int(text)
