"""What is recorded of Lightning's Trainer and of transformers': phases, hooks, passes, and what was announced."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run
from tiny_trainers import LIGHTNING, TRANSFORMERS

pytestmark = pytest.mark.scenario  # both libraries take many seconds to import

Recorded = Callable[..., Run]


def test_lightning_tells_its_phases_hooks_and_batches_and_is_left_as_it_was(recorded: Recorded) -> None:
    # given trainings that go well, that are stopped, that fall short, and callbacks of all kinds
    run = recorded(
        LIGHTNING.replace("lightning.pytorch", "pytorch_lightning")
        + """
import time
from torch.utils.data import IterableDataset

class Fewer(IterableDataset):
    def __init__(self, length):
        self.length = length
    def __len__(self):
        return self.length
    def __iter__(self):
        return iter(torch.rand(6, 1, 2))

class Endless(IterableDataset):
    def __iter__(self):
        return iter(torch.rand(6, 1, 2))

class Slow(pl.Callback):
    def on_train_epoch_end(self, trainer, module):
        time.sleep(0.05)

class Fails(pl.Callback):
    def on_validation_end(self, trainer, module):
        if not trainer.sanity_checking:
            raise ValueError("on purpose")

quiet = dict(enable_checkpointing=False)
lambdas = pl.callbacks.LambdaCallback(on_train_epoch_end=lambda trainer, module: time.sleep(0.01))
first = trainer(callbacks=[Slow(), lambdas], limit_val_batches=2)
first.fit(Net(), loader(), loader(6))
trainer(max_steps=3, max_epochs=-1, num_sanity_val_steps=0, **quiet).fit(Net(), loader(), loader(6))
short = DataLoader(Fewer(8), batch_size=1)
trainer(num_sanity_val_steps=0, **quiet).fit(Net(), short, loader(6))
trainer(num_sanity_val_steps=0, **quiet).fit(Net(), DataLoader(Endless(), batch_size=1), loader(6))
failing = trainer(callbacks=[Fails()], **quiet)
try:
    failing.fit(Net(), loader(), loader(6))
except ValueError as error:
    import traceback, unstuck
    print(error, any(unstuck.__path__[0] in one.filename for one in traceback.extract_tb(error.__traceback__)))
print("profile" in vars(failing.profiler))
"""
    ).succeeded()
    process = run.main.process()
    assert process.adapters_failed == []
    assert "on purpose False\nFalse\n" in run.out
    usual, stopped, short, endless, failed = process.frameworks
    # then the phases come in their true order: sanity check, training, validation inside of it
    kinds = [one.kind for one in process.phases if one.at <= usual.ended and one.kind != "checkpoint"]
    assert kinds == ["validation", "training", "validation", "training", "validation"]
    first = next(one for one in process.phases if one.kind == "training")
    inside = [one for one in process.phases if one.kind == "validation"][1]
    assert first.at <= inside.at <= inside.ended <= first.ended
    # and each framework run says what it was told
    assert (usual.package, usual.what, usual.module, usual.hooks) == (
        "pytorch_lightning", "fit", "Net", ["on_train_epoch_end"],
    )  # fmt: skip
    assert (usual.announced, usual.validates_after, usual.validates, usual.delivered) == (4, 4, True, 4)
    assert (usual.epochs, usual.validations, usual.missed) == (2, 2, 0)
    assert usual.settings["limit_val_batches"] == 2
    assert [one.name for one in usual.callbacks][:2] == ["Slow", "LambdaCallback"]
    # and hooks are timed by whose they are, those that do nothing left out
    calls = {one.name: one for one in process.calls if one.what == "callback"}
    assert calls["Slow.on_train_epoch_end"].timing.count == 2
    assert calls["Slow.on_train_epoch_end"].timing.total >= 0.1
    assert calls["LambdaCallback.on_train_epoch_end"].timing.total >= 0.02
    assert calls["Net.on_train_epoch_end"].timing.count >= 6
    assert "Slow.on_train_epoch_start" not in calls
    assert calls["Fails.on_validation_end"].failed == 1
    # and a training that is stopped has not fallen short, one whose length lies has
    assert (stopped.short, stopped.missed, stopped.delivered) == (0, 0, None)
    assert (short.announced, short.delivered, short.short, short.missed, short.validations) == (8, 6, 2, 2, 0)
    assert (endless.announced, endless.missed, endless.validations) == (None, 0, 2)
    assert failed.ended is not None
    # and passes have their end, though nobody asked for a batch more than there are
    trained = next(one for one in process.loaders if one.optimizer_steps and not one.iterable)
    assert [one.batches for one in trained.ended][:2] == [4, 4]
    # and what a hook calls that has a name of its own is not counted to it
    parts = {(one.what, one.name) for gap in trained.boundaries for one in gap.parts}
    assert {("callback", "Slow.on_train_epoch_end"), ("checkpoint", "torch.save")} <= parts
    saved = [one.path for one in process.saved]
    assert saved
    assert all(one.endswith(".ckpt") for one in saved)


def test_transformers_tells_its_phases_events_and_batches_and_is_left_as_it_was(recorded: Recorded) -> None:
    run = recorded(
        TRANSFORMERS
        + """
import time
from transformers import Seq2SeqTrainer

class Slow(TrainerCallback):
    def on_epoch_end(self, args, state, control, **kwargs):
        time.sleep(0.05)

class Own(Seq2SeqTrainer):
    def evaluate(self, *args, **kwargs):
        return Trainer.evaluate(self, *args, **kwargs)

class Leaves(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        self.handler.callbacks.remove(self)

class Fails(TrainerCallback):
    def on_evaluate(self, args, state, control, **kwargs):
        raise ValueError("on purpose")

leaves = Leaves()
first = trainer([Slow(), leaves])
leaves.handler = first.callback_handler
first.train()
print(type(first.callback_handler.callbacks).__name__, leaves in first.callback_handler.callbacks)
first.evaluate()
first.predict(Rows(4))
try:
    trainer([Fails()], num_train_epochs=1).train()
except ValueError as error:
    import traceback, unstuck
    print(error, any(unstuck.__path__[0] in one.filename for one in traceback.extract_tb(error.__traceback__)))
"""
    ).succeeded()
    process = run.main.process()
    assert process.adapters_failed == []
    assert "list False\n" in run.out
    assert "on purpose False\n" in run.out
    assert [one.what for one in process.frameworks] == ["train", "evaluate", "predict", "train"]
    usual = process.frameworks[0]
    assert (usual.name, usual.module, usual.announced, usual.delivered) == ("transformers", "Net", 4, 4)
    assert (usual.epochs, usual.validations, usual.missed, usual.validates) == (2, 2, 0, True)
    assert usual.settings["eval_strategy"] == "epoch"
    kinds = [one.kind for one in process.phases if one.kind != "checkpoint"][:6]
    assert kinds == ["training", "validation", "training", "validation", "validation", "prediction"]
    calls = {one.name: one for one in process.calls if one.what == "callback"}
    assert calls["Slow.on_epoch_end"].timing.count == 2
    assert calls["Slow.on_epoch_end"].timing.total >= 0.1
    assert calls["Leaves.on_train_begin"].timing.count == 1
    assert calls["Fails.on_evaluate"].failed == 1
    trained = next(one for one in process.loaders if one.optimizer_steps)
    assert [one.batches for one in trained.ended][:2] == [4, 4]


def test_one_that_falls_short_of_the_step_at_which_it_validates_has_missed_it(recorded: Recorded) -> None:
    run = recorded(
        TRANSFORMERS
        + """
class Fewer(torch.utils.data.IterableDataset):
    def __len__(self):
        return 8
    def __iter__(self):
        return ({"x": torch.ones(2), "labels": torch.zeros(1)} for _ in range(6))

def train(**settings):
    made = trainer(eval_strategy="steps", num_train_epochs=1, **settings)
    made.train_dataset = Fewer()
    made.train()

train(eval_steps=4)
train(eval_steps=2)
"""
    ).succeeded()
    missed, reached = run.main.process().frameworks
    assert (missed.announced, missed.delivered, missed.validations, missed.missed) == (4, 3, 0, 1)
    assert (reached.validations, reached.missed) == (1, 0)
