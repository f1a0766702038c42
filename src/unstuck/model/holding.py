"""What a process held, in words that say no more than was measured.

The kernel's quick number (RssAnon) counts pages that a forked worker still shares with the process that forked it. What
is private takes a walk through all pages, 40 ms for a GiB, and is only asked now and then, and of a few.
"""

from __future__ import annotations

from .evidence import Host
from .growing import looks_at
from .phrases import duration, size
from .recorded import Process

RECENT = 5.0  # seconds before the last look: what was private then is not far from what was in the end


def held(host: Host, process: Process) -> str | None:
    """682 MiB when last seen, of which 480 MiB were private to it at 31 s. None: nobody saw it."""
    looks = [one for one in looks_at(host, process.pid, "anonymous") if one[1]]  # a victim is emptied before it is gone
    if not looks:
        return None
    at, value = looks[-1]
    private = [(then, own) for then, own in looks_at(host, process.pid, "own") if then >= at - RECENT]
    if private:
        then, own = private[-1]
        return f"{size(value)} when last seen; {size(own)} were private to it at {duration(then)}"
    shared = ", with what it shared with the main process" if process.threads_at_fork is not None else ""
    return f"{size(value)} when last seen{shared}"
