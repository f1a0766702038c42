"""The autograd graph of every step is kept, so memory grows with each of them.

## What it looks at
How many nodes of autograd graphs are alive right after an optimizer step, counted now and then while the main process's
memory grows; and that memory over time. Nodes in proportion to the steps taken mean that each step's graph is
kept.

## Why it happens
A tensor that came out of the model knows how it was computed. Whoever keeps it keeps that: `total += loss`, a list of
losses or outputs for the end of the epoch, a metric that stores what it is given. The graph goes, and its memory with
it, only when the tensor does.

## What to do
Keep numbers, or tensors without their history: `total += loss.item()`, `outputs.append(output.detach())`; evaluate
under `torch.no_grad()`.

## How sure it is
Sure: the nodes were counted. It speaks when they grew at least 0.8 times as much as the steps between the newest two or
three counts, each at twice the steps of the one before. A window of the newest results stops growing and is left alone,
unless the run is younger than the window is long. Memory that grows without such nodes is another matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ...analysis.case import Case
from ...analysis.memory import Climb, climb, looks_at, meets, oom_killed, room
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.process import Graph, Process
from ...wording.text import duration, short, size
from ..rule import rule

ALONG = 0.8  # of the steps' growth: a graph that is kept for each step grows as they do
LOOKS = 2  # counts: steps have doubled between them
NEWEST = 3  # counts that are looked at: what is kept may be kept from some day on
FEW = 200  # nodes in all: a model and its newest loss have as many


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    outranks=("main-oom-killed", "container-oom-killed", "worker-oom-killed"),
)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        if not _accumulates(main.graphs):
            continue
        first, last = main.graphs[0], main.graphs[-1]
        grown = _memory(case, main, first)
        yield case.finding(
            main,
            cause=f"The graph of every step is kept: {_count(last)} nodes of autograd graphs are alive after step "
            f"{last.step:,}, and each step adds about {_each(first, last):.0f}.",
            seen=list(_seen(case, main, grown)),
            remedy=_remedy(last),
            onset_s=first.at,
            where=last.where,
        )


def _accumulates(graphs: list[Graph]) -> bool:
    """Nodes grew with the steps of late; tensors did, where there were more nodes than are counted."""
    newest = graphs[-NEWEST:]
    counted = [one for one in newest if not one.limited]
    if len(counted) >= LOOKS:
        return counted[-1].nodes >= FEW and _along([(one.step, one.nodes) for one in counted])
    return len(newest) >= LOOKS and _along([(one.step, one.tensors) for one in newest])


def _along(counts: list[tuple[int, int]]) -> bool:
    """Whether they grew as the steps did, each time."""
    return all(after >= ALONG * before * at / then for (then, before), (at, after) in pairwise(counts))


def _count(graph: Graph) -> str:
    return f"{graph.nodes:,} or more" if graph.limited else f"{graph.nodes:,}"


def _each(first: Graph, last: Graph) -> float:
    return (last.nodes - first.nodes) / max(last.step - first.step, 1) or last.nodes / last.step


def _memory(case: Case, main: Process, first: Graph) -> Climb | None:
    """Until the last step: what is kept goes when the program ends."""
    host = case.host_of(main)
    if host is None:
        return None
    return climb(looks_at(host, main.pid, "anonymous", since=first.at, until=main.last_step), LOOKS)


def _seen(case: Case, main: Process, grown: Climb | None) -> Iterator[str]:
    yield f"nodes alive: {', '.join(f'{_count(one)} after step {one.step:,}' for one in main.graphs)}"
    host = case.host_of(main)
    if grown is None or host is None or grown.grown <= 0:
        return
    yield (
        f"memory of the main process, mapped files not counted, grew from {size(grown.first)} to {size(grown.last)} in "
        f"{duration(grown.until - grown.since)}"
    )
    left, rate = room(host), _steps_a_second(main)
    over = case.ended_well(main) or oom_killed(case, [main]) is not None
    if left is not None and rate and not over:
        step = meets(left[0], grown.per_second / rate, main.optimizer_steps)
        yield f"at this rate {left[1]} is reached at about step {step:,}: {size(left[0])} are left"


def _steps_a_second(main: Process) -> float:
    first, last = main.graphs[0], main.graphs[-1]
    return (last.step - first.step) / (last.at - first.at) if last.at > first.at else 0.0


def _remedy(last: Graph) -> Remedy:
    where = f" around {short(last.where)}" if last.where is not None else ""
    return Remedy(
        f"Look{where} for what is kept of the model's results from step to step: a sum as in `total += loss`, a list "
        "of losses or outputs, a metric that stores them. Keep a number, `total += loss.item()`, or a tensor without "
        "its history, `outputs.append(output.detach())`; compute what is only looked at under torch.no_grad()."
    )
