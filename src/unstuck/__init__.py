"""unstuck tells why a PyTorch training run is stuck, slow, dead or silently wrong, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .diagnose import diagnose
    from .inside.api import progress, stage
    from .model.report import Report
    from .recording import watch

__version__ = "0.1.0"
__all__ = ["Report", "__version__", "diagnose", "progress", "stage", "watch"]

_HOME = {"watch": "recording", "stage": "recording", "progress": "recording", "diagnose": "diagnose", "Report": "model.report"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'unstuck' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value
