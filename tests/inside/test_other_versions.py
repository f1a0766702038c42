"""A library of another version lacks this and that: what is missing is not hooked, and the rest works as before."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import pytest
from running import Run

from unstuck.inside.core.guard import Guard

Recorded = Callable[..., Run]
ADAPTERS = ("lightning_trainer", "lightning_checkpoint", "lightning_metrics", "transformers_trainer")


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_module_without_anything_of_it_is_left_out(name: str) -> None:
    adapter = importlib.import_module(f"unstuck.inside.adapters.{name}")
    for wanted in adapter.MODULES:
        try:
            adapter.install(ModuleType(wanted), Guard(name, print))()
        except (AttributeError, ValueError, TypeError):
            continue  # the adapter is missing then, and the run goes on


def test_a_trainer_of_another_shape_runs_as_before_and_says_what_it_can(recorded: Recorded) -> None:
    run = recorded("""
        import importlib, sys
        from types import ModuleType
        import torch

        class Loop:
            def __init__(self, trainer):
                self.trainer = trainer
            def run(self):
                self.on_run_start()
                for number in range(2):
                    self.on_advance_start()
                    self.on_advance_end()
                return "ran"
            def on_run_start(self):
                pass
            def on_advance_start(self):
                pass
            def on_advance_end(self):
                pass

        class FitLoop(Loop):
            run, on_run_start, on_advance_start, on_advance_end = (
                Loop.run, Loop.on_run_start, Loop.on_advance_start, Loop.on_advance_end
            )

        class Trainer:
            def _run_stage(self):
                return FitLoop(self).run()

        adapter = importlib.import_module("_unstuck_inside.adapters.lightning_trainer")
        guard = sys.modules["_unstuck_inside.core.guard"]
        for name, kind in (("trainer.trainer", Trainer), ("loops.fit_loop", FitLoop)):
            module = ModuleType(f"pytorch_lightning.{name}")
            kind.__module__ = module.__name__
            setattr(module, kind.__name__, kind)
            adapter.install(module, guard.Guard("lightning_trainer", print))
        print(Trainer()._run_stage())
    """).succeeded()
    process = run.main.process()
    assert run.out == "ran\n"
    assert process.adapters_failed == []
    assert [(one.name, one.package, one.epochs) for one in process.frameworks] == [
        ("Lightning", "pytorch_lightning", 2)
    ]
