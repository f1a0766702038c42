"""Whether gradients are off and the model is evaluated when a pass begins: what is noted, and what is not touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import LOOP, Run

from unstuck.inside.format import MODE_BITS, MODE_EVAL, MODE_NO_GRAD, Kind

pytestmark = pytest.mark.scenario  # models are compiled

Recorded = Callable[..., Run]


def modes(run: Run) -> list[int]:
    """Of each pass, in order."""
    return [record[7] & (1 << MODE_BITS) - 1 for record in run.succeeded().main.events(Kind.ITERATOR)]


def test_gradients_that_are_off_and_a_model_that_is_evaluated_are_noted_at_the_beginning(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
train()
with torch.no_grad():
    look()
model.eval()
look()
with torch.inference_mode():
    look()
model.train()
train()
"""
    )
    assert modes(run) == [0, MODE_NO_GRAD, MODE_EVAL, MODE_EVAL | MODE_NO_GRAD, 0]


def test_a_frozen_part_and_a_teacher_do_not_make_training_a_validation(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
teacher = copy.deepcopy(model)
for epoch in range(2):
    model.train()
    model[1].eval()
    teacher.eval()
    train()
"""
    )
    assert modes(run) == [0, 0]
    assert [one.kind for one in run.main.process().phases] == ["training", "training"]


def test_a_model_counts_whose_wrapper_is_trained_and_which_is_set_back_by_hand(recorded: Recorded) -> None:
    """As DDP and torch.compile wrap it, and as Lightning ends a validation."""
    run = recorded(
        LOOP
        + """
compiled = torch.compile(model, backend="eager", dynamic=False)
compiled.train()
train()
model.eval()
look()
for module in model.modules():
    module.training = True
train()
"""
    )
    assert modes(run) == [0, MODE_EVAL, 0]


def test_training_with_an_evaluated_model_is_training(recorded: Recorded) -> None:
    """Its steps say more than its mode."""
    run = recorded(LOOP + "for epoch in range(3):\n    model.eval()\n    train()\n")
    assert modes(run) == [0, MODE_EVAL, MODE_EVAL]
    assert [one.kind for one in run.main.process().phases] == ["training", "training", "training"]


def test_models_can_be_copied_pickled_compiled_and_freed_as_ever(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
class Switching(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
    def forward(self, rows):
        self.drop.eval()
        return self.drop(rows)

assert nn.Module.train.__wrapped__ is not None
assert nn.Module.train.__qualname__ == "Module.train"
switching = torch.compile(Switching(), fullgraph=True, backend="eager")
for turn in range(2):
    switching(torch.ones(1))
    switching.train()
train()
model.eval()
again = pickle.loads(pickle.dumps(copy.deepcopy(model)))
assert not again.training and not [name for name in vars(again) if "unstuck" in name]
gc.collect()
gc.disable()
gone = nn.Linear(1, 1).train().eval()
alive = weakref.ref(gone)
del gone
print(alive())
try:
    model.train("yes")
except ValueError as error:
    print(error)
"""
    ).succeeded()
    assert run.out.splitlines() == ["None", "training mode is expected to be boolean"]
    assert run.main.process().adapters_failed == []
