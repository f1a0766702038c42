"""Import the target and make its loader; nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..opening import opened

if TYPE_CHECKING:
    from ..request import Facts


def run(request: dict[str, Any], facts: Facts) -> None:
    opened(request, facts)
