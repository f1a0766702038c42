"""Steps of optimizers are counted once each, whatever else they do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run

Recorded = Callable[..., Run]

OPTIMIZERS = """
import torch
weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.ones(1)
"""


def steps(run: Run) -> int:
    return run.succeeded().main.process().optimizer_steps


def test_a_step_inside_a_step_counts_once(recorded: Recorded) -> None:
    run = recorded(
        OPTIMIZERS
        + """
class Outer(torch.optim.SGD):
    def __init__(self, params):
        super().__init__(params, lr=0.1)
        self.inner = torch.optim.Adam(params)
    def step(self, closure=None):
        self.inner.step()
        return super().step()

torch.optim.SGD([weight], lr=0.1).step()
outer = Outer([weight])
for turn in range(4):
    outer.step()
"""
    )
    assert steps(run) == 5


def test_steps_after_one_that_raised_are_counted(recorded: Recorded) -> None:
    run = recorded(
        OPTIMIZERS
        + """
def fail():
    raise ValueError("out of memory")

broken, fresh = (torch.optim.SGD([weight], lr=0.1) for _ in range(2))
try:
    broken.step(fail)
except ValueError:
    pass
for turn in range(3):
    fresh.step()
    broken.step()
"""
    )
    assert steps(run) == 6


@pytest.mark.scenario
def test_a_compiled_step_still_works_and_is_counted(recorded: Recorded) -> None:
    run = recorded(
        OPTIMIZERS
        + """
optimizer = torch.optim.SGD([weight], lr=0.5)
step = torch.compile(lambda: optimizer.step(), backend="eager")
for turn in range(3):
    step()
assert weight.item() == -1.5, weight
print("compiled")
"""
    )
    assert run.code == 0, run.err
    assert run.out == "compiled\n"
    assert run.main.process().adapters_failed == []
    assert run.main.process().optimizer_steps == 3
