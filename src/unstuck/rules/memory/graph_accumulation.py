"""Memory leak: the autograd graph of every step is kept, so memory grows with each step.

## It means
A tensor that came out of the model knows how it was computed. While the tensor is kept, its graph is kept, with all
the activations in it: by `total += loss`, by a list of losses or outputs for the end of the epoch, by a metric that
stores what it is given. The memory is freed only when the tensor is. It ends with "CUDA out of memory", or with
an OOM kill.

## Fix
Keep numbers, or tensors without their history:

```python
total += loss  # before
outputs.append(model(batch))
metric.update(prediction, target)

total += loss.detach()  # after; loss.item() also works, but waits for the GPU at every step
outputs.append(model(batch).detach())
metric.update(prediction.detach(), target)
```

Compute what needs no backward, such as a validation loss, under `torch.no_grad()`.

## Check it yourself
```python
if step % 100 == 0:  # in the loop: with a leak, one of these numbers grows with the steps
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(step, resident, "MiB,", torch.cuda.memory_allocated() >> 20, "MiB on the GPU")
print(total.grad_fn)  # of anything that is kept: if it is not None, it keeps a graph
```

## Not this, if
- workers grow and the main process does not: [cow-refcount-growth](cow-refcount-growth.md)
- tensors are kept, and file descriptors run out: [fd-exhausted-tensors-kept](fd-exhausted-tensors-kept.md)
- the main process grows by mapped files only (RssFile in /proc/PID/status): that is healthy
- gradients are accumulated over a few steps on purpose: the graph is freed at each `backward()`

## How sure
Judged from the number of autograd nodes that are alive right after an optimizer step, counted now and then while the
main process's memory grows, and from that memory over time. Nodes in proportion to the steps mean that each step's
graph is kept. It speaks when they grew at least 0.8 times as much as the steps between the newest two or three counts,
each at twice the steps of the one before. A window of the newest results stops growing and is left alone, unless the
run is younger than the window is long. Memory that grows without such nodes has another cause.

## Seen in
- https://github.com/google/brax/pull/152: `total_loss += loss` in an example; torch's FAQ warns of it
- https://github.com/rabbityl/lepard/issues/12: AverageMeter.update() kept the loss with its graph
- https://github.com/jostmey/NakedAttention/issues/1: `e_train += e_batch` exhausted the memory of a notebook
- https://github.com/horovod/horovod/pull/641: an example that averaged the loss without detach()
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ...analysis.case import Case
from ...analysis.memory import Climb, climb, looks_at, meets, oom_killed, room
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.process import Graph, Process
from ...wording.text import duration, size
from ..rule import rule

ALONG = 0.8  # of the steps' growth: a graph that is kept for each step grows as they do
LOOKS = 2  # counts: steps have doubled between them
NEWEST = 3  # counts that are looked at: what is kept may be kept from some day on
FEW = 200  # nodes in all: a model and its newest loss have as many

DETACH = Remedy(
    "Detach what is kept from step to step: a running loss, a list of outputs, what a metric stores.",
    code=[
        "total += loss.detach()               # not: total += loss",
        "outputs.append(output.detach())      # not: outputs.append(output)",
    ],
)
NO_GRAPH = Remedy(
    "Run the model without a graph where no backward follows, as in validation.",
    code=["with torch.no_grad():", "    output = model(batch)"],
)


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
            cause=f"Memory leak: the autograd graph of every step is kept ({_count(last)} nodes, "
            f"+{_each(first, last):.0f} per step).",
            seen=list(_seen(case, main, grown)),
            remedy=DETACH,
            alternatives=[NO_GRAPH],
            onset_s=first.at,
            where=last.where,
            symptom=Symptom.LEAKING.value,
        )


def _accumulates(graphs: list[Graph]) -> bool:
    """Nodes grew with the steps of late; tensors did, where there were more nodes than are counted."""
    newest = graphs[-NEWEST:]
    counted = [graph for graph in newest if not graph.limited]
    if len(counted) >= LOOKS:
        return counted[-1].nodes >= FEW and _along([(graph.step, graph.nodes) for graph in counted])
    return len(newest) >= LOOKS and _along([(graph.step, graph.tensors) for graph in newest])


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
        f"the main process grew from {size(grown.first)} to {size(grown.last)} in "
        f"{duration(grown.until - grown.since)}, mapped files not counted"
    )
    left, rate = room(host), _steps_a_second(main)
    over = case.ended_well(main) or oom_killed(case, [main]) is not None
    if left is not None and rate and not over:
        step = meets(left[0], grown.per_second / rate, main.optimizer_steps)
        yield f"at this rate {left[1]} is reached at about step {step:,}: {size(left[0])} are left"


def _steps_a_second(main: Process) -> float:
    first, last = main.graphs[0], main.graphs[-1]
    return (last.step - first.step) / (last.at - first.at) if last.at > first.at else 0.0
