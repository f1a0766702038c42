"""What each rank got of the same data: batches, steps and collectives that only some ranks have."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from ..evidence.basics import Place
from ..evidence.distributed import Collective, Phase, Prepared
from ..evidence.epochs import VALIDATION
from ..evidence.loader import Loader, LoaderState
from ..evidence.process import Process
from .case import Case, once
from .collectives import Parting, differing, line_of, parted, same, trained
from .rank_deaths import KILLED
from .ranks import Stand, all_wait, entry_name, stand, unfinished

# What each rank got from the same loader: batches and optimizer steps, epoch by epoch.
JOIN = "Join"
ROUNDED = 0.002  # seconds: times are rounded to thousandths
AFTER = 0.1  # seconds: an exception that leaves a loop ends its epoch, too


class Share(NamedTuple):
    """One rank's own of a loader that all ranks have."""

    stand: Stand
    process: Process
    loader: Loader

    @property
    def rank(self) -> int:
        return self.stand.rank

    @property
    def newest(self) -> Phase | None:
        """The newest epoch over it."""
        return self._own[-1] if self._own else None

    @property
    def passes(self) -> list[Phase]:
        """Those that ended, or were left."""
        return [one for one in self._own if one.ended is not None]

    @property
    def inside(self) -> bool:
        """It is inside an epoch, or was when it crashed."""
        newest, loader = self.newest, self.loader
        if newest is None or newest.number_of_pass != loader.passes or self.through:
            return bool(loader.passes) and not self.through
        goes_on = newest.ended is None or self._fell_out(newest.ended)
        return goes_on and not self._waits_after_loop()

    @property
    def through(self) -> bool:
        """The loader has no more batches. A trainer may still validate or save in the same epoch."""
        return self.loader.now == LoaderState.BETWEEN_PASSES

    @property
    def left(self) -> bool:
        """It broke out of its newest epoch. Without workers nothing records that, and the epoch seems to go on."""
        return self.newest is not None and not self.inside and not self.through

    def _waits_after_loop(self) -> bool:
        """It waits at a line that it has reached before, and never inside an epoch.

        Not where the loop is a trainer's: all it does before, in and after an epoch, the user asked for at one line.
        """
        where, process = self.stand.where, self.process
        times = [one.at for one in process.collectives if same_line(one.where, where)]
        times += [one.at for one in process.spans if same_line(one.where, where)]
        before = [one for one in times if any(one < phase.at for phase in self._own)]
        inside = any(_covers(phase, one) for phase in self._own for one in before)
        return bool(before) and not inside and not any(map(self._came_before_batch, times))

    def _came_before_batch(self, moment: float) -> bool:
        """In the newest epoch, and another batch of it came afterwards."""
        newest = self.newest
        return newest is not None and newest.at <= moment < self.loader.now_since - ROUNDED

    @property
    def _own(self) -> list[Phase]:
        return [one for one in self.process.phases if one.loader == self.loader.number]

    def in_pass(self, number: int) -> int | None:
        """Batches of that epoch, also while it goes on. None: not known."""
        if number == self.loader.passes:
            return self.loader.pass_batches
        for one in self.process.phases:
            if one.loader == self.loader.number and one.number_of_pass == number:
                return one.batches
        return next((one.batches for one in self.loader.ended if one.number == number), None)

    def _fell_out(self, ended: float) -> bool:
        death, workers = self.stand.death, self.loader.shutdowns.longest  # these are ended on the way out
        return death is not None and ended >= death.at - AFTER - workers


def shared_loaders(stands: list[Stand]) -> list[list[Share]]:
    """Loaders that several ranks have: made at the same line, as the same one of those made there."""
    found: dict[tuple[str, int, int], list[Share]] = {}
    for one in stands:
        counted: dict[tuple[str, int], int] = {}
        for loader in one.process.loaders if one.process is not None else ():
            line = _line(loader)
            counted[line] = counted.get(line, 0) + 1
            if one.process is not None:
                found.setdefault((*line, counted[line]), []).append(Share(one, one.process, loader))
    return [shares for shares in found.values() if len(shares) > 1]


def joins(share: Share) -> bool:
    """Its newest epoch is inside Join, which lets ranks end at different times."""
    begun = share.newest.at if share.newest is not None else 0.0
    return any(one.name == JOIN and (one.ended is None or one.ended >= begun) for one in share.process.spans)


def together(one: Stand, other: Stand) -> bool:
    """Both wait in one and the same collective, as far as can be seen."""
    first, second = (unfinished(each.process) if each.process is not None else None for each in (one, other))
    if first is not None and second is not None:
        return first.sequence == second.sequence and same(first, second)
    return one.spot == other.spot


def same_line(one: Place | None, other: Place | None) -> bool:
    return one is not None and other is not None and (one.file, one.line) == (other.file, other.line)


def _covers(phase: Phase, moment: float) -> bool:
    return phase.at <= moment and (phase.ended is None or moment < phase.ended - ROUNDED)


def _line(loader: Loader) -> tuple[str, int]:
    if loader.created is None:
        return f"{loader.type} {loader.dataset}", 0
    return loader.created.file, loader.created.line


# Ranks that got different numbers of batches, or did different numbers of steps with the same.
BY_DDP = ("backward", "forward")


class Apart(NamedTuple):
    """One rank that has finished, or is ahead, and those that wait for it."""

    one: Share
    behind: list[Share]
    stands: list[Stand]

    @property
    def first(self) -> Share:
        return self.behind[0]

    @property
    def batch(self) -> int:
        """The first one's batch that the other never had. It has it already, or is about to ask for it."""
        return max(self.first.loader.batches, self.one.loader.batches + 1)


@once
def uneven(case: Case) -> Apart | None:
    """A rank that finished its epoch, while others wait with a batch that it never had."""
    stands = all_wait(case)
    for shares in shared_loaders(stands):
        short = [one for one in _kinds(shares) if _is_through(one)]
        for one in sorted(short, key=lambda one: one.loader.batches):
            longer = [other for other in shares if _has_more(other, one)]
            if longer and not joins(one):
                return Apart(one, longer, stands)
    return None


@once
def skipped(case: Case) -> Apart | None:
    """A rank that is done with a batch, without the step that others wait to make with theirs."""
    stands = all_wait(case)
    for shares in shared_loaders(stands) if uneven(case) is None else ():
        for one in sorted(_kinds(shares), key=lambda one: -one.loader.batches):
            behind = [other for other in shares if _is_behind(other, one)]
            if behind and not joins(one):
                return Apart(one, behind, stands)
    return None


def _kinds(shares: list[Share]) -> list[Share]:
    """One of each state: of a thousand ranks, most are where most others are."""
    kinds: dict[tuple[object, ...], Share] = {}
    for one in shares:
        loader, stand = one.loader, one.stand
        state = loader.passes, loader.batches, loader.now, one.process.optimizer_steps, stand.spot, stand.ended
        kinds.setdefault(state, one)
    return list(kinds.values())


class Shift(NamedTuple):
    """An epoch with equal batches in which two ranks made different numbers of steps, and calls."""

    fewer: Share
    more: Share
    number: int  # of the epoch
    batches: int
    steps: tuple[int, int]
    seen_at: int  # an epoch, this one or a later one, after which the sequence numbers are known
    begins: tuple[int, int]  # of the first collective after that


def shifted(stands: list[Stand]) -> Shift | None:
    """Ranks out of step, of a run that goes on or has ended; but not if all made equally many steps in the end."""
    for shares in shared_loaders(stands):
        ended = all(one.stand.ended for one in shares)
        if ended and len({one.process.optimizer_steps for one in shares}) == 1:
            continue
        for one, most in _out_of_step(shares):
            found = _shift(one, most)
            if found is not None and not joins(one):
                return found
    return None


def _out_of_step(shares: list[Share]) -> Iterator[tuple[Share, Share]]:
    """Ranks that made fewer steps in an epoch than the rank that made most, and that rank."""
    most: dict[int | None, tuple[int, Share]] = {}
    for one in shares:
        for phase in one.passes:
            if phase.steps > most.get(phase.number_of_pass, (0, one))[0]:
                most[phase.number_of_pass] = phase.steps, one
    for one in shares:
        fewer = [most[phase.number_of_pass] for phase in one.passes if phase.number_of_pass in most]
        own = [phase.steps for phase in one.passes if phase.number_of_pass in most]
        other = next((share for (steps, share), mine in zip(fewer, own, strict=True) if steps > mine), None)
        if other is not None:
            yield one, other


def _shift(one: Share, other: Share) -> Shift | None:
    """The first epoch with equal batches and fewer steps, and the first from there on whose end both know."""
    mine, theirs = ({phase.number_of_pass or 0: phase for phase in each.passes} for each in (one, other))
    both = sorted(mine.keys() & theirs.keys())
    fewer = next((number for number in both if _fewer_steps(mine[number], theirs[number])), None)
    if fewer is None or any(mine[number].batches != theirs[number].batches for number in both):
        return None
    for number in both:
        begins = _begins(one, mine[number]), _begins(other, theirs[number])
        if number >= fewer and begins[0] is not None and begins[1] is not None:
            steps = mine[fewer].steps, theirs[fewer].steps
            found = Shift(one, other, fewer, mine[fewer].batches, steps, number, (begins[0], begins[1]))
            return found if begins[0] != begins[1] else None
    return None


def _fewer_steps(one: Phase, other: Phase) -> bool:
    return 0 < one.steps < other.steps and one.batches == other.batches and not one.left and not other.left


def _begins(one: Share, phase: Phase) -> int | None:
    """The number of the first collective after an epoch. None: the Flight Recorder does not reach back so far."""
    calls = [call for call in one.process.collectives if not call.group]
    ended = phase.ended or 0.0
    if not calls or calls[0].at > ended:
        return None
    return next((call.sequence for call in calls if call.at > ended), None)


def _is_through(one: Share) -> bool:
    """It finished its newest epoch, and waits elsewhere, has ended, or was stopped when the others crashed."""
    gone = one.stand.waits or one.stand.ended or one.stand.sent_away
    return not one.inside and not one.left and one.loader.passes > 0 and gone


def _has_more(other: Share, one: Share) -> bool:
    """In an epoch that the one has ended. A rank in a later epoch had no more: it left out what the one waits in."""
    waits = other.inside and (other.stand.waits or other.stand.sent_away)
    more = other.loader.batches > one.loader.batches or _is_to_have_more(other, one)
    return waits and other.loader.passes <= one.loader.passes and more


def _is_to_have_more(other: Share, one: Share) -> bool:
    """It did all its steps with as many batches, and its loader has more: a trainer may call a collective before each.

    Where both have the same length, that is no proof. Then it has to be a call that both make with every batch.
    """
    mine, theirs = one.loader, other.loader
    level = (theirs.passes, theirs.batches) == (mine.passes, mine.batches)
    stepped = other.process.optimizer_steps == one.process.optimizer_steps
    if not level or not stepped or theirs.length is None or theirs.length <= mine.pass_batches:
        return False
    return (mine.length is not None and mine.length < theirs.length) or _made_in_pass(one, unfinished(other.process))


def _made_in_pass(one: Share, call: Collective | None) -> bool:
    """It called the same inside its newest epoch, as often as it had batches."""
    newest = one.newest
    if call is None or newest is None:
        return False
    ended = one.loader.now_since
    made = [each for each in one.process.collectives if newest.at <= each.at <= ended and same(each, call)]
    return len(made) >= one.loader.pass_batches > 0


def _is_behind(other: Share, one: Share) -> bool:
    """It waits to make a step that the one has not made, with a batch that the one is done with."""
    number, steps = other.loader.passes, one.process.optimizer_steps
    had = one.in_pass(number)
    if other.rank == one.rank or had is None or not steps or steps > other.process.optimizer_steps:
        return False
    through = one.loader.passes > number or (one.loader.passes == number and not one.inside)
    ahead = had > other.loader.pass_batches or (had == other.loader.pass_batches and through)
    left = one.left and one.loader.passes == number and had < other.loader.pass_batches
    return (ahead or left) and _waits_to_step(other) and not (one.stand.waits and together(one.stand, other.stand))


def _waits_to_step(one: Share) -> bool:
    """In the middle of a batch, before its step: in DDP's own collectives, or with all steps made but this one."""
    waits = one.inside and (one.stand.waits or one.stand.sent_away)
    return waits and (one.stand.call in BY_DDP or one.process.optimizer_steps + 1 == one.loader.batches)


# Ranks of a live run whose loaders have different lengths: at the end of the epoch they will part.
AGREEING = ("all_reduce", "all_gather", "allgather", "broadcast")


def lengths_apart(case: Case) -> Iterator[list[Share]]:
    """Loaders in their very first epoch, of ranks that live and train with DDP; the shortest first."""
    stands = stand(case)
    alive = len(stands) > 1 and all(one.process is not None and one.process.alive for one in stands)
    if case.stall is not None or not alive:
        return
    for shares in shared_loaders(stands):
        lengths = {one.loader.length for one in shares}
        if len(lengths) > 1 and None not in lengths and all(map(_trains_first_pass, shares)):
            yield sorted(shares, key=lambda one: one.loader.length or 0)


def _trains_first_pass(one: Share) -> bool:
    ddp = any(each.kind == "DistributedDataParallel" for each in one.process.wrapped)
    first = one.loader.passes == 1 and one.inside and one.loader.optimizer_steps > 0
    return ddp and first and not joins(one) and not _agrees(one)


def _agrees(one: Share) -> bool:
    """The user's own code reduces or gathers single numbers: that is how ranks agree on where to stop."""
    own = [each for each in one.process.collectives if entry_name(each) in AGREEING]
    return any(prod(size) <= 1 for each in own for size in each.sizes)


# Loaders that accelerate has prepared on all ranks: what each rank is assigned, and what it has had of it.
DISPATCHER = "DataLoaderDispatcher"


class Part(NamedTuple):
    """One rank's part in a prepared loader."""

    process: Process
    prepared: Prepared
    loader: Loader | None  # that came out of it

    @property
    def rank(self) -> int:
        return self.process.rank or 0

    @property
    def length(self) -> int | None:
        """As accelerate computes it."""
        return self.prepared.after.length if self.prepared.after is not None else None

    def passed(self) -> dict[int, int]:
        """Batches of each epoch that ended, by its number."""
        if self.loader is None:
            return {}
        found = {one.number: one.batches for one in self.loader.ended}
        if self.loader.now == LoaderState.BETWEEN_PASSES:
            found[self.loader.passes] = self.loader.pass_batches
        return found

    def had(self) -> dict[int, int]:
        """The same, with the epoch that it is in."""
        if self.loader is None or not self.loader.passes:
            return {}
        return {self.loader.passes: self.loader.pass_batches, **self.passed()}


@once
def prepared_together(case: Case) -> list[list[Part]]:
    """Loaders that were prepared at the same line, as often as each was, with the parts of all ranks, by rank."""
    found: dict[tuple[object, ...], list[Part]] = {}
    for process in case.ranks:
        counts: dict[object, int] = {}
        for one in process.prepared:
            place = one.where
            counts[place] = counts.get(place, 0) + 1
            loader = next((other for other in process.loaders if other.number == one.loader), None)
            found.setdefault((place, counts[place]), []).append(Part(process, one, loader))
    return [parts for parts in found.values() if len(parts) > 1]


def is_dispatched(one: Prepared) -> bool:
    """Only the first rank loads, and sends the others their part."""
    return one.after is not None and one.after.type.endswith(DISPATCHER)


def will_fail(one: Prepared) -> bool:
    """accelerate shards the batch sampler, and here there is no such thing."""
    before = one.before
    nobody = before.batch_sampler is None and before.batch_size is None
    return nobody and not before.iterable and one.processes > 1 and not one.dispatch_batches and not is_dispatched(one)


# A collective that only some ranks call: which, by which ranks, what the others called instead, and in which phase.
SOON = 3.0  # seconds from the last batch of a validation to the call about its result, and until a crash there is seen
NOT_BY_HAND = ("backward", "forward", "DistributedDataParallel", "")


class Alone(NamedTuple):
    """The call, the rank that made it, and where all ranks are."""

    parting: Parting
    who: Stand  # the first of those that made it
    stands: list[Stand]
    phase: Phase | None  # that it made the call in

    @property
    def call(self) -> str:
        return entry_name(self.parting.first)

    @property
    def others(self) -> list[Stand]:
        return [one for one in self.stands if one.rank in self.parting.others]

    @property
    def known(self) -> bool:
        """The others have called that line before."""
        return any(_calls(one, self.parting.first) for one in self.others)

    @property
    def in_validation(self) -> bool:
        """In one that none of the others has entered."""
        phase = self.phase
        return phase is not None and phase.kind == VALIDATION and not any(_entered(one, phase) for one in self.others)


@once
def alone(case: Case) -> Alone | None:
    """None where uneven or skipped batches explain that the ranks parted, or where only the sizes of a call differ."""
    stands = all_wait(case)
    found = (parted(stands) or _by_counts(stands)) if stands else None
    if found is None or uneven(case) is not None or skipped(case) is not None or differing(case):
        return None
    if found.instead is None and all(_only_late(other, found, stands) for other in stands):
        return None
    who = next(one for one in stands if one.rank == found.ranks[0])
    return Alone(found, who, stands, _phase_at(who, found.first.at))


def _only_late(stand: Stand, found: Parting, stands: list[Stand]) -> bool:
    """It made the call; or it was told to go before it came there, with no sign that it went another way."""
    if stand.rank in found.ranks:
        return True
    batches = trained(stands)
    ahead = batches.get(stand.rank, 0) > batches.get(found.ranks[0], 0)
    return stand.sent_away and not stand.waits and not ahead


def _by_counts(stands: list[Stand]) -> Parting | None:
    """Without its Flight Recorder: a rank that crashed in a collective, while others train on batches after its last.

    Native code that was sent too much data ends the process at once.
    """
    batches = trained(stands)
    for one in stands:
        crashed = one.death is not None and one.death.how == KILLED and one.call not in NOT_BY_HAND
        ahead = [other.rank for other in stands if batches.get(other.rank, 0) > batches.get(one.rank, 0) > 0]
        call = Collective(0, one.call, one.death.at if one.death is not None else 0.0, where=one.where)
        if crashed and len(ahead) == len(stands) - 1 and not any(_calls(other, call) for other in stands):
            return Parting([call], [one.rank], ahead, None)
    return None


def _calls(stand: Stand, call: Collective) -> bool:
    """It is known to have called this line, too."""
    return stand.process is not None and any(line_of(one) == line_of(call) for one in stand.process.collectives)


def _phase_at(stand: Stand, moment: float) -> Phase | None:
    """The innermost: the one that began last. A mean is reduced after the loop, so a validation lasts a bit longer."""
    phases = stand.process.phases if stand.process is not None else []
    begun = [one for one in phases if one.at <= moment]
    around = [one for one in begun if one.ended is None or moment <= one.ended]
    newest = begun[-1] if begun else None
    if newest is not None and newest.kind == VALIDATION and newest.ended is not None:
        just_left = not around or moment - newest.ended <= SOON
        return newest if just_left else around[-1]
    return around[-1] if around else None


def _entered(stand: Stand, phase: Phase) -> bool:
    phases = stand.process.phases if stand.process is not None else []
    return any(one.kind == VALIDATION and one.number == phase.number for one in phases)
