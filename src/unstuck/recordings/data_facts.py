"""What a recording says of the data itself: datasets at the beginning of passes, batches, what was dropped, graphs."""

from __future__ import annotations

from typing import Any

import msgspec

from ..evidence.basics import Place
from ..evidence.loader import Handed, Pass, State
from ..evidence.process import Graph
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts


def of_loader(facts: Facts, number: int) -> dict[str, Any]:
    """What the main process tells of one of its loaders."""
    sent = facts.noted(Kind.SENT, number)
    return {
        "ended": [
            Pass(number=one[f.R_B], batches=one[f.R_A], at=facts.at(one[f.R_START]))
            for one in facts.noted(Kind.PASS_END, number)
        ],
        "states": _states(facts, number),
        "resumed": [facts.at(one[f.R_START]) for one in facts.noted(Kind.RESUMED, number)],
        "sent": sent[-1][f.R_A] if sent else 0,
    }


def of_fetching(facts: Facts, number: int) -> dict[str, Any]:
    """What a process tells of what it fetched for a loader. In a main process, states are the loader's."""
    return {
        "handed": [_handed(facts, one) for one in facts.noted(Kind.HANDED, number)],
        "digests": [_json(facts, one, list[int]) for one in facts.noted(Kind.DIGESTS, number)],
        "dropped": sum(one[f.R_A] for one in facts.noted(Kind.DROPPED, number)),
        "states": _states(facts, number) if number == 0 else [],
    }


def graphs(facts: Facts) -> list[Graph]:
    return [
        Graph(
            at=facts.at(one[f.R_START]),
            step=one[f.R_A],
            nodes=one[f.R_B],
            **_json(facts, one, _Counted).fields(),
        )
        for one in facts.noted(Kind.GRAPH)
    ]


class _Counted(msgspec.Struct):
    tensors: int = 1
    limited: bool = False
    where: dict[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        place = msgspec.convert(self.where, Place) if self.where else None
        return {"tensors": self.tensors, "limited": self.limited, "where": place}


class _Told(msgspec.Struct):
    numbers: dict[str, int] = {}
    generators: dict[str, str] = {}


def _states(facts: Facts, number: int) -> list[State]:
    """Told before the first batch of a pass; after it, only what has changed."""
    notes = facts.noted(Kind.STATE, number)
    drawn = {one[f.R_A]: _json(facts, one, _Told).generators for one in notes if one[f.R_B]}
    found = []
    for one in notes:
        if one[f.R_B]:
            continue
        told, after = _json(facts, one, _Told), drawn.get(one[f.R_A])
        generators = {
            name: (state, "" if after is None else after.get(name, state)) for name, state in told.generators.items()
        }
        at = facts.at(one[f.R_START])
        found.append(State(at=at, number=one[f.R_A], numbers=told.numbers, generators=generators))
    return found


def _handed(facts: Facts, one: list[int]) -> Handed:
    return Handed(
        at=facts.at(one[f.R_START]),
        batch=one[f.R_DURATION],
        tensors=one[f.R_A],
        size=one[f.R_B],
        storage=one[f.R_C],
    )


def _json(facts: Facts, one: list[int], kind: Any) -> Any:
    text = facts.recording.string(one[f.R_C])
    return msgspec.json.decode(text, type=kind) if text else kind()
