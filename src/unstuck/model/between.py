"""What the main thread does beside loading and computing: calls that hold it up, and the gaps that they make."""

from __future__ import annotations

import msgspec

from .places import Place
from .timing import Timing

LOGGER, HTTP, CHECKPOINT, VALIDATION, COLLECTION = "logger", "http", "checkpoint", "validation", "collection"
SYNCHRONIZE, COMPILE, RANKS = "synchronize", "compile", "other ranks"
ENDING, STARTING, FIRST_BATCH, OTHER_LOADER = "ending workers", "starting workers", "first batch", "another loader"
OWN = "own code"
CALLBACK = "callback"  # or a hook of the model's: what it calls that is known by another name is not counted to it


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """One kind of side work, all the times that one line of the user's asked for it."""

    what: str  # logger, http, checkpoint, collection (of garbage), synchronize, compile, callback
    name: str  # wandb.log, SummaryWriter.add_image, GET 127.0.0.1 …
    where: Place | None = None
    timing: Timing = Timing()
    failed: int = 0  # times that an exception left it
    said: str = ""  # the newest of those, type and message
    at: float = 0.0  # the first time
    last: float = 0.0  # when the newest ended
    since: float | None = None  # the one that goes on


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """What part of a gap, or of many, went into."""

    what: str  # as of a Call; validation, other ranks, ending workers, starting workers, first batch, another loader
    name: str
    seconds: float
    count: int = 1
    where: Place | None = None


class Gap(msgspec.Struct, frozen=True, omit_defaults=True):
    """A time in which no batch was asked for: a loop's body, or what lies between two passes."""

    at: float
    seconds: float
    number: int  # of the batch before it, or of the pass
    parts: list[Part] = []

    @property
    def rest(self) -> float:
        """Computing, and code that nothing is known of."""
        return max(self.seconds - sum(one.seconds for one in self.parts), 0.0)


class Logger(msgspec.Struct, frozen=True, omit_defaults=True):
    """A logging library that was set up."""

    name: str  # wandb, mlflow, tensorboard
    mode: str = ""  # online, offline, disabled; "" where the library has no such thing
    folder: str = ""
    address: str = ""
    at: float = 0.0
    where: Place | None = None
    uncommitted: int = 0  # calls with commit=False and no step
    lost: int = 0  # values whose place another value of the same name has taken before the row was written
    lost_at: Place | None = None  # where the first of them was
    settings: dict[str, float] = {}  # limits of its own, as far as they are known
    kept: int = 0  # calls that `unstuck.nonblocking` has taken
    refused: int = 0  # and those of them that the logger never got


class Compiled(msgspec.Struct, frozen=True, omit_defaults=True):
    """torch.compile has compiled a function."""

    at: float
    seconds: float
    where: Place | None = None  # the function
    reason: str = ""  # why again; empty the first time
    count: int = 1  # how often this one was, so far
    limited: bool = False  # it was given up for good: torch compiles no function more often than its limit
