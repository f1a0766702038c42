"""Frameworks that run the training loop for the user: what they were told to do, and what they announced."""

from __future__ import annotations

from typing import Any

import msgspec

from .basics import Place

LIGHTNING, TRANSFORMERS = "Lightning", "transformers"


class Callback(msgspec.Struct, frozen=True, omit_defaults=True):
    """One that is registered with a trainer."""

    name: str  # of its class
    hooks: list[str] = []  # that it has of its own: on_train_epoch_end …
    where: Place | None = None  # where its class is written, if that is the user's code


class Framework(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of a trainer: fit, validate, train …"""

    name: str  # Lightning, transformers
    package: str = ""  # as the user imports it: lightning.pytorch, pytorch_lightning, transformers
    version: str = ""
    what: str = ""  # fit, validate, test, predict; train, evaluate
    at: float = 0.0
    ended: float | None = None
    where: Place | None = None  # the line that asked for it
    settings: dict[str, Any] = {}  # as the framework calls them
    module: str = ""  # class of the model
    data: str = ""  # class of the DataModule; empty: there is none
    data_at: Place | None = None  # where that is written
    callbacks: list[Callback] = []
    announced: int | None = None  # batches of a training epoch; None: not known, or without end
    validates_after: int | None = None  # batches of an epoch after which it validates; None: at its end, or never
    validates: bool | None = None  # it has data to validate with, and was not told to leave it
    epochs: int = 0  # of training that ended
    validations: int = 0  # those of a sanity check not counted
    hooks: list[str] = []  # that the model's class has of its own and that do something
    empty: list[str] = []  # its steps that do nothing: validation_step
    delivered: int | None = None  # batches of the newest epoch that came to its end
    short: int = 0  # epochs that brought fewer batches than announced
    missed: int = 0  # those of them at whose end it would have validated, and did not
