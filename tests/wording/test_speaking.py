"""Remedies in the words of the framework that makes the loader and runs the loop."""

from __future__ import annotations

import msgspec
import pytest

from kept import KEPT
from unstuck.analysis.case import Case
from unstuck.evidence import Evidence
from unstuck.evidence.frameworks import Callback, Framework
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Process
from unstuck.rules.discovery import all_rules
from unstuck.wording.settings import framework_of, in_words, in_words_of, once, settings, trainer_of

SLOW = KEPT / "dataloader-bound" / "found.json"
MAKERS = {
    "": "num_workers=8",
    "TrainingArguments": "TrainingArguments(dataloader_num_workers=8)",
    "wds.WebLoader": "wds.WebLoader(…, num_workers=8)",
    "Scans.train_dataloader": "num_workers=8 in the DataLoader of Scans.train_dataloader",
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_setting_is_written_where_its_maker_reads_it(maker):
    assert settings(Loader(1, made_by=maker), num_workers=8) == MAKERS[maker]


def test_several_settings_of_a_trainer_are_one_call():
    words = settings(Loader(1, made_by="TrainingArguments"), num_workers=2, prefetch_factor=1)

    assert words == "TrainingArguments(dataloader_num_workers=2, dataloader_prefetch_factor=1)"


def test_what_training_arguments_cannot_say_is_left_to_the_loader():
    assert settings(Loader(1, made_by="TrainingArguments"), in_order=False) == "in_order=False"


def test_a_trainer_makes_its_loader_once_by_itself():
    assert "DataLoader" in once(Loader(1))
    assert "train()" in once(Loader(1, made_by="TrainingArguments"))
    assert "reload_dataloaders_every_n_epochs=0" in once(Loader(1, made_by="Scans.train_dataloader"))


def test_a_trainer_that_only_evaluates_after_the_training_does_not_stand_for_the_run():
    process = Process("n", 1, 0, "main", frameworks=[Framework("x", what="train"), Framework("x", what="evaluate")])

    assert framework_of(process) == Framework("x", what="train")


def test_the_newest_framework_decides_how_the_loop_is_spoken_of():
    process = Process("n", 1, 0, "main", frameworks=[Framework("Lightning"), Framework("transformers")])

    assert in_words_of(process, "plain", lightning="L", transformers="T") == "T"
    assert in_words_of(process, "plain", lightning="L") == "plain"
    assert in_words_of(Process("n", 1, 0, "main"), "plain", lightning="L") == "plain"


def test_the_trainer_is_named_with_what_it_was_asked_for():
    known = Framework("Lightning", "lightning.pytorch", "2.6.6", "fit", module="Net", data="Scans")
    known = msgspec.structs.replace(known, callbacks=[Callback("Stop")])

    assert in_words(known) == "Lightning 2.6.6: Trainer.fit(Net, datamodule=Scans), 1 callback"
    assert in_words(Framework("transformers", what="train", module="Bert")) == "transformers: Trainer(Bert).train()"


@pytest.mark.parametrize("maker", MAKERS)
def test_a_loader_that_does_not_keep_up_is_mended_in_its_makers_words(maker):
    evidence = msgspec.json.decode(SLOW.read_bytes(), type=Evidence)
    (finding,) = all_rules()["dataloader-bound"].check(Case(_made_by(evidence, maker)))

    assert f"Set {MAKERS[maker].partition('=')[0]}=" in finding.remedy.text
    assert maker.rpartition(".")[0] in finding.remedy.text


def _made_by(evidence: Evidence, maker: str) -> Evidence:
    change = msgspec.structs.replace
    known = [
        change(one, loaders=[change(loader, made_by=maker) for loader in one.loaders])
        for one in evidence.recording or ()
    ]
    return change(evidence, recording=known)


def test_a_run_without_a_framework_names_none():
    assert trainer_of(msgspec.json.decode(SLOW.read_bytes(), type=Evidence)) == ""
