"""Data files that are damaged, incomplete or not what they should be.

The same rules judge files that were checked on purpose and files that a recorded run had trouble with.
"""

from __future__ import annotations

# What such a file does to a run: its reason is the file.
RAISED = ("worker-python-exception", "uncaught-exception")
SWALLOWED = ("handler-drops-shard-rest", "shard-read-errors")  # these know of the same file what it cost the run
