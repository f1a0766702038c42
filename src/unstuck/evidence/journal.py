"""The lines a watcher writes into the run folder as they come: an OOM kill may take it along at any moment."""

from __future__ import annotations

import msgspec

from . import Exit, Glance, Sample, Told


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """The watcher starts; what does not change over the run."""

    node: str
    pid: int
    cpus: int = 0
    granted: str = ""
    quota: float | None = None
    descriptor_limit: int | None = None
    cgroup: str | None = None


class Look(msgspec.Struct, frozen=True, tag="look"):
    """One sample of the machine."""

    sample: Sample


class Glanced(msgspec.Struct, frozen=True, tag="glance"):
    """One look at a main thread."""

    glance: Glance


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """A process ended and the watcher saw how."""

    exit: Exit


class Heard(msgspec.Struct, frozen=True, tag="signal"):
    """A signal came for the command."""

    told: Told


class End(msgspec.Struct, frozen=True, tag="end"):
    """The watcher has seen the run to its end."""

    at: float


Line = Begin | Look | Glanced | Gone | Heard | End
