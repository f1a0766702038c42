"""Lines about the training itself: trainers of frameworks, losses and where they head, loggers, checkpoints."""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from ..inside.format import APART, SAVED_ASIDE, SAVED_HELD, SAVERS, Kind
from ..recordings.decoder import Record
from ..recordings.tail import Tail
from ..wording.text import duration, many, percent, size
from .files import DEBUG, ERROR, INFO, WARNING, Line, Settings

MARKER = "🔍 [TRAINER]"
NAMES = 64  # for which lines are written; a program that makes up names would fill the log
RARE = 10.0  # seconds: a value that comes once an epoch is written each time
OF_VALIDATION = ("val", "eval", "test")
TEN = 10
LEVEL = 0.01  # of the value before: less is no change worth a line
LOGGED = ("logger", "http")
ONCE = ("wandb.init", "wandb.finish", "mlflow.start_run")  # not part of an epoch
NOTICED = 0.5  # seconds: a call that takes that long blocks the training, whatever it did
SHARE = 0.05  # of the epoch: so do many short ones


class Trainers:
    """One rank's lines."""

    KINDS = (Kind.FRAMEWORK,)

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._known: dict[int, dict[str, Any]] = {}

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.FRAMEWORK: self._told}

    def _told(self, one: Record) -> list[Line]:
        """At its beginning, when its data is known, after each epoch, and at its end."""
        told = self._tail.facts(one.a)
        if not told:
            return []
        known = self._known.setdefault(one.key, {})
        before = dict(known)
        known.update({name: value for name, value in told.items() if value is not None})
        at = self._tail.seconds(one.end)
        if one.duration:
            return self._ended(at, known, one.duration / 1e9)
        if "name" in told:
            return self._began(at, known)
        if "announced" in told:
            return self._announced(at, known)
        return self._epoch(at, known, before) if "epochs" in told else []

    def _began(self, at: float, known: dict[str, Any]) -> list[Line]:
        where = known.get("where") or {}
        place = f" at {where.get('file')}:{where.get('line')}" if where else ""
        data = f", DataModule {known['data']}" if known.get("data") else ""
        first = (
            f"{known['name']} {known.get('version', '')} ({known.get('package')}): Trainer.{known.get('what')}{place}"
        )
        settings = ", ".join(f"{name}={value}" for name, value in (known.get("settings") or {}).items())
        callbacks = "; ".join(_callback(one) for one in known.get("callbacks") or ())
        texts = [f"{first}, model {known.get('module')}{data}", f"- settings: {settings}"]
        texts.append(f"- callbacks: {callbacks or 'none'}")
        if known.get("hooks"):
            texts.append(f"- hooks of {known.get('module')} itself: {', '.join(known['hooks'])}")
        texts += [f"- {one} of {known.get('module')} does nothing" for one in known.get("empty") or ()]
        sanity = (known.get("settings") or {}).get("num_sanity_val_steps")
        if known.get("what") == "fit" and known.get("validates") and sanity:
            texts.append("- the first validation is a sanity check, before any training")
        return [Line(at, INFO, "trainer", f"{self.name} {MARKER} {text}") for text in texts]

    def _announced(self, at: float, known: dict[str, Any]) -> list[Line]:
        batches, after = known.get("announced"), known.get("validates_after")
        count = f"an epoch has {many(batches, 'batch')} by len()" if batches else "an epoch has no known length"
        unit = "batch" if known.get("name") == "Lightning" else "step"
        validates = f"it validates after {unit} {after:,}" if after else "it validates at the end of an epoch"
        told = validates if known.get("validates") else "it does not validate"
        return [Line(at, INFO, "trainer", f"{self.name} {MARKER} - {count}; {told}")]

    def _epoch(self, at: float, known: dict[str, Any], before: dict[str, Any]) -> list[Line]:
        came, announced = known.get("delivered"), known.get("announced")
        of = f" of {announced:,}" if announced else ""
        batches = f", {came:,}{of} batches" if came is not None else ""
        validations = f"{many(known.get('validations', 0), 'validation')} so far"
        text = f"{self.name} [TRAINER] epoch {known['epochs'] - 1} is through{batches}, {validations}"
        if known.get("missed", 0) <= before.get("missed", 0):
            return [Line(at, DEBUG, "trainer", text, main=False)]
        text += ": ⚠️ validation skipped: the batch at which it validates never came"
        return [Line(at, WARNING, "trainer", text, key=True)]

    def _ended(self, at: float, known: dict[str, Any], seconds: float) -> list[Line]:
        parts = [f"{many(known[name + 's'], name)}" for name in ("epoch", "validation") if known.get(name + "s")]
        counts = f": {', '.join(parts)}" if parts else ""
        text = f"{self.name} {MARKER} Trainer.{known.get('what')} is over after {duration(seconds)}{counts}"
        return [Line(at, INFO, "trainer", text)]


def _callback(one: dict[str, Any]) -> str:
    hooks = one.get("hooks") or []
    return f"{one.get('name')} ({', '.join(hooks)})" if hooks else str(one.get("name"))


class Losses:
    """One rank's. A line for the first value of each name, then one every so many steps, or after a while."""

    def __init__(self, settings: Settings) -> None:
        self._every = settings.every
        self._due: dict[str, int] = {}
        self._told: dict[str, float] = {}
        self._count: dict[str, int] = {}
        self._broken: set[str] = set()
        self._trends: dict[str, Trend] = {}

    def told(self, rank: str, at: float, name: str, value: float, step: int | None) -> list[Line]:
        if name not in self._due and len(self._due) >= NAMES:
            return []
        count = self._count.get(name, 0)
        self._count[name] = count + 1
        step = count if step is None else step
        lines = self.nonsense(rank, at, name, value, step)
        trend = self._trends.setdefault(name, Trend())
        trend.add(at, step, value)
        due = self._due.get(name)
        rare = at - self._told.get(name, 0.0) > RARE
        if due is None or rare or step >= due or step < due - self._every:  # it may start again
            self._due[name], self._told[name] = (step // self._every + 1) * self._every, at
            lines.append(Line(at, DEBUG, "loop", f"{rank} {_of_value(name, value, step)}{trend.words()}", key=True))
        return lines

    def nonsense(self, rank: str, at: float, name: str, value: float, step: int) -> list[Line]:
        if math.isfinite(value) or name in self._broken:
            return []
        self._broken.add(name)
        return [Line(at, WARNING, "loop", f"{rank} ⚠️ {name} is {value} at step {step}", key=True)]


@functools.lru_cache(NAMES)  # it is asked for every value there is
def is_of_validation(name: str) -> bool:
    return any(part in name.lower() for part in OF_VALIDATION)


def _of_value(name: str, value: float, step: int) -> str:
    kind = "Validation value" if is_of_validation(name) else "Training step"
    if "loss" not in name.lower() or name == "loss":
        return f"{kind} {step}, {name}={value:.4f}"
    return f"{kind} {step}, loss={value:.4f} ({name})"


class Trend:
    """Of one name."""

    def __init__(self) -> None:
        self._newest: deque[tuple[float, int, float]] = deque(maxlen=2 * TEN)

    def add(self, at: float, step: int, value: float) -> None:
        if self._newest and step < self._newest[-1][1]:  # it has started again
            self._newest.clear()
        self._newest.append((at, step, value))

    def words(self) -> str:
        """`; 41.2 steps/s; last 10 fell by 4 % against the 10 before`. Empty as long as there are too few."""
        known = list(self._newest)
        if len(known) < 2 * TEN:
            return ""
        before, last = (sum(one[2] for one in part) / TEN for part in (known[:TEN], known[TEN:]))
        took, steps = known[-1][0] - known[0][0], known[-1][1] - known[0][1]
        speed = f"; {steps / took:.3g} steps/s" if took > 0 and steps > 0 else ""
        return f"{speed}{_change(before, last)}"


def _change(before: float, last: float) -> str:
    if not math.isfinite(before) or not math.isfinite(last) or not before:
        return ""
    change = (last - before) / abs(before)
    if abs(change) < LEVEL:
        return "; last 10 level with the 10 before"
    return f"; last 10 {'rose' if change > 0 else 'fell'} by {percent(abs(change))} against the 10 before"


class Logging:
    """One rank's lines."""

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._spent: dict[str, list[float]] = {}  # by name: calls, seconds, longest; since a pass ended

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.LOGGER: self._set_up, Kind.CALL: self._called}

    def _set_up(self, one: Record) -> list[Line]:
        known = self._tail.facts(one.a)
        if not known:
            return []
        marker = f"{self.name} [{str(known.get('name')).upper()}]"
        at, where = self._tail.seconds(one.start), known.get("where") or {}
        place = f", set up at {str(where.get('file')).rpartition('/')[2]}:{where.get('line')}" if where else ""
        if "lost_at" in known:
            lost = known["lost_at"] or {}
            text = f"{marker} ⚠️ commit=False without a step overwrites values that were not stored yet"
            return [Line(at, WARNING, "logger", f"{text}: {lost.get('file')}:{lost.get('line')}", key=True)]
        folder = f", folder {known['folder']}" if known.get("folder") else ""
        server = f", server {known['address']}" if known.get("address") else ""
        text = f"{marker} Mode: {known.get('mode') or 'writes files'}{folder}{server}{place}"
        return [Line(at, INFO, "logger", text)]

    def _called(self, one: Record) -> list[Line]:
        what, _, rest = self._tail.string(one.key).partition(APART)
        name, *place = rest.split(APART)
        if what not in LOGGED:
            return []
        if one.b:  # a note about one that failed
            spot = f" at {place[0]}:{place[1]}" if len(place) == 3 else ""
            text = f"{self.name} ✗ ERROR in {name}{spot}: {self._tail.string(one.b)}"
            return [Line(self._tail.seconds(one.end), ERROR, "logger", text)]
        if one.duration and name not in ONCE:  # without a duration it is only met
            spent = self._spent.setdefault(name, [0, 0.0, 0.0])
            seconds = one.duration / 1e9
            spent[:] = [spent[0] + 1, spent[1] + seconds, max(spent[2], seconds)]
        return []

    def ends(self, number: int, loader: int, at: float, lasted: float) -> list[Line]:
        """An epoch has ended: what it spent."""
        spent, self._spent = self._spent, {}
        return [self._line(f"pass {number} over loader {loader}", at, lasted, *one) for one in spent.items()]

    def _line(self, which: str, at: float, lasted: float, name: str, spent: list[float]) -> Line:
        count, seconds, longest = spent
        blocked = longest >= NOTICED or seconds >= SHARE * lasted > 0
        told = f"blocked the training for {duration(seconds)}" if blocked else "non-blocking"
        text = f"{self.name} [LOGGER] {which}: {many(int(count), 'call')} of {name}, {duration(seconds)} in all, "
        text += f"{duration(longest)} at most ({told})"
        return Line(at, INFO if blocked else DEBUG, "logger", text, main=blocked)


def saved(tail: Tail, rank: str, one: Record) -> list[Line]:
    if one.a & SAVED_HELD:  # only begun: the line comes when it is saved
        return []
    path = tail.string(one.key) or "a file whose name was not recorded"
    aside = ", in the background" if one.a & SAVED_ASIDE else ""
    took = f"{SAVERS[one.a & 3]} took {duration(one.duration / 1e9)}{aside}{_speed(one)}"
    text = f"{rank} Checkpoint saved: {path} ({took})"
    return [Line(tail.seconds(one.end), INFO, "checkpoint", text, key=True)]


def save_failed(tail: Tail, rank: str, one: Record) -> list[Line]:
    known = tail.facts(one.a)
    first = str(known.get("failed", "an exception")).splitlines()[0]
    remains = known.get("size")
    left = f"; {size(remains)} of it are on disk, which cannot be loaded" if remains else ""
    free = f"; {size(known['free'])} were free" if "free" in known else ""
    text = f"{rank} ❌ Checkpoint not saved: {tail.string(one.key)}: {first}{left}{free}"
    return [Line(tail.seconds(one.end), ERROR, "checkpoint", text, key=True)]


def _speed(one: Record) -> str:
    if one.b <= 1 or not one.duration:
        return ""
    return f": {size(one.b - 1)}, {size((one.b - 1) / (one.duration / 1e9))}/s"
