"""Run folders: where they lie, who watches them, how many stay, what is kept out of them."""

from __future__ import annotations

import os
import time

import pytest

from unstuck.errors import UserError
from unstuck.inside import run_folder
from unstuck.probes.redaction import redact
from unstuck.watching import place


def make_run(base, name, age):
    folder = base / name
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    os.utime(folder / "run.json", (time.time() - age, time.time() - age))
    return folder


def test_the_oldest_runs_go_and_the_newest_stay(tmp_path):
    runs = [make_run(tmp_path, f"run{age}", age) for age in range(6)]

    place.forget_old_runs(tmp_path, keep=2)

    assert [one.exists() for one in runs] == [True, True, False, False, False, False]


def test_a_run_that_is_being_watched_stays_however_old_it_is(tmp_path):
    old = make_run(tmp_path, "old", 100)
    make_run(tmp_path, "new", 1)
    lock = place.elect(old)

    place.forget_old_runs(tmp_path, keep=1)

    assert old.exists()
    lock.close()


def test_what_is_no_run_is_never_removed(tmp_path):
    (tmp_path / "thesis").mkdir()

    place.forget_old_runs(tmp_path, keep=0)

    assert (tmp_path / "thesis").exists()


def test_one_watcher_is_elected_per_node(tmp_path):
    first = place.elect(tmp_path)

    assert place.elect(tmp_path) is None
    first.close()
    assert place.elect(tmp_path) is not None


def test_where_space_cannot_be_reserved_recordings_lie_on_a_local_disk_and_are_brought_home(tmp_path, monkeypatch):
    monkeypatch.setattr(place, "file_system", lambda _: "nfs4")

    folder, recordings = place.make(tmp_path, ["python", "train.py"])
    (recordings / "node.1.2.3.rec").write_bytes(b"written here")
    place.bring_home(recordings, folder)

    assert recordings.parent != folder
    assert (folder / "recordings" / "node.1.2.3.rec").read_bytes() == b"written here"


def test_a_place_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(UserError, match="--run-dir"):
        place.make(tmp_path / "file" / "runs", ["python"])


@pytest.mark.parametrize(
    ("variables", "identity"),
    [
        ({"UNSTUCK_RUN": "night run/7"}, "night-run-7"),
        ({"TORCHELASTIC_RUN_ID": "abc", "MASTER_ADDR": "node1"}, "abc-node1"),
        ({"SLURM_JOB_ID": "99", "SLURM_STEP_ID": "3"}, "slurm-99-3"),
    ],
)
def test_all_processes_of_a_run_agree_on_its_identity(monkeypatch, variables, identity):
    for name in ("UNSTUCK_RUN", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert run_folder.identity() == identity


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--token", "abc", "--lr", "1"], ["--token", "[redacted]", "--lr", "1"]),
        (["--wandb-api-key=abc"], ["--wandb-api-key=[redacted]"]),
        (["trainer.password=abc"], ["trainer.password=[redacted]"]),
        (["s3://user:abc@bucket/x"], ["s3://user:[redacted]@bucket/x"]),
        (["--tokenizer", "gpt2", "--tokens=5"], ["--tokenizer", "gpt2", "--tokens=5"]),
    ],
)
def test_secrets_are_taken_out_and_the_rest_is_not(given, kept):
    assert redact(given) == kept
