"""Lists of files that somebody wrote when the data was made: ours, and those that people really have."""

from __future__ import annotations

from ...analysis.data_files import matched
from .ours import members
from .recognising import is_manifest
from .understanding import read
from .writing import Writing, write

__all__ = ["Writing", "is_manifest", "matched", "members", "read", "write"]
