"""The first thing that every trial does: get the loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .request import Facts


def opened(request: dict[str, Any], facts: Facts) -> Any:
    """The loader of the target, as the command line wants it. What it is, is written down."""
    import torch  # noqa: F401  (before the user's modules, so that importing it is not counted as theirs)

    from . import loaders, target

    facts.put(doing="importing")
    thing = target.load(request["target"], request.get("kwargs", {}))
    facts.put(doing="constructing")
    loader, gave = loaders.as_loader(thing, request["target"], request.get("options", {}))
    facts.put(doing="", gave=gave, loader=loaders.described(loader))
    return loader
