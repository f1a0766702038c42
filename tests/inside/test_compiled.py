"""What is recorded of torch.compile: the function, the time, and the guard that did not hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run

Recorded = Callable[..., Run]


@pytest.mark.scenario
def test_each_compilation_is_told_with_its_function_and_why_it_was_needed_again(recorded: Recorded) -> None:
    run = recorded("""
        import logging, torch
        logging.disable()
        from torch.utils.data import DataLoader

        def total(parts):
            return sum(part.sum() for part in parts)

        compiled = torch.compile(total, backend="eager")
        for number in DataLoader(range(1, 12), batch_size=None):
            compiled([torch.ones(2)] * number)
    """).succeeded()
    process = run.main.process()
    first, *again, last = process.compiled
    assert process.adapters_failed == []
    assert {one.where.function for one in process.compiled if one.where} == {"total"}
    assert first.reason == ""
    assert [one.count for one in again] == list(range(2, 2 + len(again)))
    assert all("len(parts) ==" in one.reason for one in again)
    # and torch's limit, beyond which it gives up
    assert [one.limited for one in again] == [False] * len(again)
    assert last.limited


@pytest.mark.scenario
def test_what_a_compiled_function_raises_is_as_without_us(recorded: Recorded) -> None:
    run = recorded("""
        import torch

        @torch.compile(backend="eager", fullgraph=True)
        def breaks(x):
            print("a side effect")
            return x

        try:
            breaks(torch.ones(1))
        except torch._dynamo.exc.Unsupported as error:
            print("as ever", "_unstuck_inside" not in str(error))
    """).succeeded()
    assert run.out == "as ever True\n"
    assert run.main.process().adapters_failed == []
