"""unstuck tells why a PyTorch training run is stuck, slow, dead or silently wrong, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .diagnose import diagnose as why
    from .inside.api import metric, nonblocking, note, phase, progress, stage
    from .logs.to_logging import log_to
    from .recording import watch
    from .report import Report

__version__ = "0.1.0"
__all__ = [
    "Report",
    "__version__",
    "log_to",
    "metric",
    "nonblocking",
    "note",
    "phase",
    "progress",
    "stage",
    "watch",
    "why",
]

# No name here is also the name of a module: importing the module would put it in the function's place.
_HOME = {
    "watch": ("recording", "watch"),
    "stage": ("recording", "stage"),
    "phase": ("recording", "phase"),
    "progress": ("recording", "progress"),
    "metric": ("recording", "metric"),
    "nonblocking": ("recording", "nonblocking"),
    "note": ("recording", "note"),
    "log_to": ("logs.to_logging", "log_to"),
    "why": ("diagnose", "diagnose"),
    "Report": ("report", "Report"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'unstuck' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOME[name]
    value = globals()[name] = getattr(import_module(f".{module}", __name__), attribute)
    return value
