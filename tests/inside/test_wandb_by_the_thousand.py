"""What wandb does by the thousand: rows of a table, histograms of all weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run

from unstuck.evidence.loader import Call

Recorded = Callable[..., Run]
pytestmark = pytest.mark.scenario  # importing wandb takes as long as a small training
WANDB = """
import os
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=os.path.dirname(__file__))
import wandb
"""
ROWS, COLUMNS, TABLES = ("wandb.Table.add_data", 19), ("wandb.Table.add_column", 22), ("wandb.Table", 17)


def calls(run: Run) -> dict[tuple[str, int | None], Call]:
    known = [one for one in run.succeeded().main.process().calls if one.what == "logger"]
    return {(one.name, one.where.line if one.where else None): one for one in known}


def test_rows_of_a_table_are_counted_together(recorded: Recorded) -> None:
    run = recorded(
        WANDB
        + """
import time
spent = {"inside": 0, "outside": 0}
def watched(call, which):
    def timed(*given):
        begun = time.perf_counter()
        try:
            return call(*given)
        finally:
            spent[which] += time.perf_counter() - begun
    return timed
run = wandb.init(project="x")
for step in range(3):
    table = wandb.Table(columns=["id", "score"], data=[[0, 0.5]] * 50)
    table._get_updated_result_type = watched(table._get_updated_result_type, "inside")
    add = watched(lambda *row: table.add_data(*row), "outside")
    for row in range(200):
        add(row, 0.5)
    table.add_column("more", [1] * 250)
    time.sleep(0.01)
    run.log({"table": table})
try:
    table.add_data(1)
except ValueError:
    import traceback, unstuck
    print(unstuck.__path__[0] in traceback.format_exc(), spent["inside"], spent["outside"])
run.finish()
"""
    )
    found, (said, inside, outside) = calls(run), run.out.split()
    rows, columns, tables = (found[one] for one in (ROWS, COLUMNS, TABLES))
    assert (said, columns.timing.count, tables.timing.count) == ("False", 3, 3)
    assert 3 <= rows.timing.count <= 60  # of 600: a busy machine cuts some in two
    assert 0 < float(inside) < rows.timing.total < float(outside)
    assert rows.since is None


def test_watch_is_known_by_the_line_that_asked_for_it(recorded: Recorded) -> None:
    run = recorded(
        WANDB
        + """
import torch
run = wandb.init(project="x")
model = torch.nn.Linear(2, 1)
run.watch(model, log="all", log_freq=1)
for _ in range(2):
    model(torch.ones(1, 2)).sum().backward()
run.finish()
"""
    )
    known = sorted((one.at, line) for (name, line), one in calls(run).items() if name == "wandb.watch")
    assert [line for _, line in known] == [8, 10]
