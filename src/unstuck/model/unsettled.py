"""A standstill whose cause no rule knows: who is blocked where, for how long, and what would settle it."""

from __future__ import annotations

from .doing import GPU, OWN
from .evidence import Evidence
from .phrases import duration, short, who
from .progress import DEVICE, PERSON, SERVER, STORAGE, Standstill, moves_itself, standstills
from .standing import main_stack, recorded, waits_in
from .trained import nothing_of_it

MANY = 4  # ranks that are told one by one


def unsettled(evidence: Evidence) -> list[str]:
    """One line for each rank without progress, and one on how to find out more; or that nothing of it was seen."""
    still = standstills(evidence)
    if not still:
        return [one for one in [nothing_of_it(evidence)] if one]
    told = [_line(evidence, one) for one in still[:MANY]]
    told += [f"{len(still) - MANY} more ranks make no progress"] if len(still) > MANY else []
    return [*told, f"To settle it: {_how(still[0], known=recorded(evidence, still[0].seen) is not None)}."]


def _line(evidence: Evidence, one: Standstill) -> str:
    name = who(one.seen)[:1].upper() + who(one.seen)[1:]
    stack = main_stack(evidence, one.seen.pid)
    spins = stack is not None and moves_itself(one.seen, stack)
    inside = "computing, with nothing to show for it" if spins else waits_in(one.seen.main_task)
    what = inside if one.doing == OWN else one.doing if one.doing == GPU else f"{one.doing}, {inside}"
    at = f" at {short(one.where)} ({one.where.function})" if one.where is not None else ""
    waits = f"; it may be waiting for {one.awaits}" if one.awaits and one.doing != GPU else ""
    return f"{name} has made no progress for {duration(one.seconds)}{at}: {what}{waits}."


def _how(one: Standstill, *, known: bool) -> str:
    again = f"look again in a minute (unstuck why {one.seen.pid})"
    if one.awaits == PERSON:
        return "answer the prompt or leave the debugger"
    if one.awaits == SERVER:
        return f"see whether that server answers anybody else, or {again}"
    if one.awaits == DEVICE:
        return again if known else f"{again}; a run under `unstuck run` also tells which collective each rank waits in"
    if one.awaits == STORAGE:
        return f"read from that storage by hand, with a time limit, or {again}"
    return f"{again}, or sample it: unstuck why {one.seen.pid} --seconds 10"
