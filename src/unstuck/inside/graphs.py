"""Autograd graphs that outlive their step: counted now and then, and only while memory grows."""

from __future__ import annotations

import gc
import json
import os
import sys
from types import FrameType

from .describe import user_line
from .format import Kind
from .recorder import Recorder, clock

FIRST = 32  # steps: what every training allocates at first is allocated
GROWN = 8 << 20  # bytes of memory since then, below which nothing is counted
AT_ONCE = 3  # times: a twentieth of a second each, in a run whose memory grows; after that,
SELDOM = 100  # times as long as it took must have gone by before it is counted again
MANY = 20_000  # nodes
SLOW = 200_000_000  # nanoseconds: a heap on which counting takes that long is counted once more at most
PAGE = os.sysconf("SC_PAGE_SIZE")


class Census:
    """Of this process. It is taken at steps 64, 128, 256 and so on, right after an optimizer step."""

    __slots__ = ("before", "counted", "due", "left")

    def __init__(self) -> None:
        self.before = self.counted = self.due = 0
        self.left = 12

    def step(self, recorder: Recorder, steps: int, frame: FrameType) -> None:
        if steps == FIRST or not self.before:
            self.before = _anonymous()
        elif self.left and clock() > self.due and _anonymous() - self.before > GROWN:
            begun = clock()
            self.left -= 1
            self.counted += 1
            nodes, tensors = _count()
            spent = clock() - begun
            self.due = clock() + SELDOM * spent if self.counted >= AT_ONCE else 0
            if spent > SLOW:
                self.left = min(self.left, 1)
            told = {"tensors": tensors, "limited": nodes >= MANY, "where": user_line(frame)}
            recorder.note(Kind.GRAPH, 0, begun, spent, steps, nodes, recorder.intern(json.dumps(told)))
            recorder.cost(spent)


def _anonymous() -> int:
    """Bytes of memory that are neither files nor shared."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            fields = statm.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * PAGE


def _count() -> tuple[int, int]:
    """Nodes that can be reached from tensors that live, and how many of these there are."""
    torch = sys.modules.get("torch")
    if torch is None:
        return 0, 0
    kind = torch.Tensor
    roots = [one.grad_fn for one in gc.get_objects() if type(one) is kind and one.grad_fn is not None]
    waiting = list(roots)
    seen: dict[int, object] = {}
    while waiting and len(seen) < MANY:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node  # kept, so that no other gets its address
            waiting += [inner for inner, _ in node.next_functions if inner is not None]
    return len(seen), len(roots)


census = Census()
