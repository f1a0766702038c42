"""Lists of files that somebody wrote when the data was made: ours, and those that people really have."""

from __future__ import annotations

from ...analysis.data_files import matched
from .own import ManifestWriter, members
from .reading import is_manifest, read

__all__ = ["ManifestWriter", "is_manifest", "matched", "members", "read"]
