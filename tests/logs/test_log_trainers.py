"""What the log says of a framework's trainer."""

from __future__ import annotations

import json

import pytest

from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.format import Kind
from unstuck.logs.files import Settings
from unstuck.logs.rank import NOTES, RING, MainProcess
from unstuck.recordings.tail import Tail

SMALL = f.Layout(board=16, totals=16, ring=64, notes=64, strings=8192, last_words=4096)
BEGUN = {
    "name": "Lightning", "package": "lightning.pytorch", "version": "2.6.6", "what": "fit", "module": "Net",
    "data": "Cells", "where": {"file": "/train.py", "line": 15, "function": "main"}, "validates": True,
    "settings": {"max_epochs": 3, "num_sanity_val_steps": 2}, "empty": ["validation_step"],
    "callbacks": [{"name": "Plots", "hooks": ["on_train_epoch_end"]}, {"name": "Timer"}],
}  # fmt: skip


@pytest.fixture
def told(tmp_path):
    """What is told of facts that are noted, one after the other."""
    recorder = Recorder(str(tmp_path / "node.1.2.3.rec"), SMALL)
    recorder.words[f.H_ROLE] = f.ROLE_MAIN
    recorder.publish()
    main = MainProcess(Tail(recorder.path, RING, NOTES), Settings())
    main.called("[Rank 0]")

    def tell(facts, lasted=0.0):
        at = recorder.words[f.H_MONOTONIC]
        recorder.note(Kind.FRAMEWORK, 1, at, int(lasted * 1e9), recorder.intern(json.dumps(facts)))
        lines = main.lines(main.tail.header[f.H_WALL] / 1e9 + 90, final=False)
        return [(one.level, one.text.removeprefix("[Rank 0] ")) for one in lines if one.name == "trainer"]

    return tell


def test_a_trainer_says_what_it_was_told_and_which_hooks_there_are(told):
    assert [text for _, text in told(BEGUN)] == [
        "🔍 [TRAINER] Lightning 2.6.6 (lightning.pytorch): Trainer.fit at /train.py:15, model Net, DataModule Cells",
        "🔍 [TRAINER] - settings: max_epochs=3, num_sanity_val_steps=2",
        "🔍 [TRAINER] - callbacks: Plots (on_train_epoch_end); Timer",
        "🔍 [TRAINER] - validation_step of Net does nothing",
        "🔍 [TRAINER] - the first validation is a sanity check, before any training",
    ]


def test_an_epoch_whose_validation_was_left_out_is_a_warning(told):
    told(BEGUN)
    (announced,) = told({"announced": 187, "validates_after": 187})
    (epoch,) = told({"epochs": 1, "validations": 0, "short": 1, "missed": 1, "delivered": 186})
    (over,) = told({"epochs": 1, "validations": 0}, lasted=61.0)

    assert announced[1] == "🔍 [TRAINER] - an epoch has 187 batches by len(); it validates after batch 187"
    assert epoch == (
        "WARNING",
        "[TRAINER] epoch 0 is through, 186 of 187 batches, 0 validations so far: ⚠️ validation skipped: the batch at "
        "which it validates never came",
    )
    assert over[1] == "🔍 [TRAINER] Trainer.fit is over after 61 s: 1 epoch"


def test_an_epoch_that_went_well_is_a_plain_line(told):
    told(BEGUN)
    told({"announced": 20, "validates_after": 20})

    (epoch,) = told({"epochs": 2, "validations": 2, "short": 0, "missed": 0, "delivered": 20})

    assert epoch == ("DEBUG", "[TRAINER] epoch 1 is through, 20 of 20 batches, 2 validations so far")
