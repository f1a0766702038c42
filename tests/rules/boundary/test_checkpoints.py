"""Checkpoints: what is looked at on disk, and where the rules speak and where they cannot know."""

from __future__ import annotations

import errno
import io
import os
import zipfile
from pathlib import Path

import msgspec
import pytest

from unstuck.analysis.case import Case
from unstuck.analysis.side_work import DISK, FILES, LIMIT, QUOTA, refused
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.distributed import Phase
from unstuck.evidence.loader import Loader, Pass, State
from unstuck.evidence.process import Process, Saved, Saving
from unstuck.probes.run_files import with_checkpoints
from unstuck.reporting.activities import activities

HERE = os.uname().nodename
LINE, OTHER = Place("/train.py", 30, "save"), Place("/train.py", 44, "backup")
HIDDEN = "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 640 vs 598"


def process(*saved: Saved, ended: float | None = 100.0, **fields) -> Process:
    """One that went through its loader from second 0 to second 100."""
    loader = Loader(number=1, batches=500, passes=5, ended=[Pass(5, 100, 99.0)], states=[State(0.0, 1)])
    loader = msgspec.structs.replace(loader, optimizer_steps=500)
    known = {"loaders": [loader], "optimizer_steps": 500, "last_step": 99.0, "last_sign": 100.0, **fields}
    return Process(node=HERE, pid=7, parent=1, role="main", ended=ended, saved=list(saved), **known)


def found(*processes: Process) -> list[str]:
    run = Run("run", status=0)
    return [one.rule for one in report_on(Evidence(run, recording=list(processes))).findings if one.role == "root"]


def failed(at: float, where: Place = LINE, said: str = "PicklingError: no", **fields) -> Saved:
    return Saved(f"/out/{at}.pt", at, 0.1, where=where, failed=said, **fields)


def kept(at: float, where: Place = LINE, **fields) -> Saved:
    return Saved(f"/out/{at}.pt", at, 0.1, size=1000, inode=int(at), where=where, **fields)


# What is on disk


def on_disk(path: Path, **fields) -> Saved:
    known = path.stat()
    return Saved(str(path), 1.0, 0.1, size=known.st_size, inode=known.st_ino, **fields)


def looked(*saved: Saved) -> list[Saved]:
    return with_checkpoints([process(*saved)], 0.0)[0].saved


def archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("archive/data.pkl", b"0" * 5000)
    return made.getvalue()


def test_a_file_that_was_renamed_is_there(tmp_path):
    (tmp_path / "new.tmp").write_bytes(archive())
    saved = on_disk(tmp_path / "new.tmp")
    (tmp_path / "new.tmp").rename(tmp_path / "last.pt")

    (one,) = looked(saved)

    assert (one.there, one.size_now, one.whole) == (True, saved.size, True)
    assert one.path == str(tmp_path / "last.pt")  # by which it can be resumed from


def test_a_file_whose_folder_was_renamed_is_there(tmp_path):
    (tmp_path / "tmp-checkpoint").mkdir()
    (tmp_path / "tmp-checkpoint" / "model.pt").write_bytes(archive())
    saved = on_disk(tmp_path / "tmp-checkpoint" / "model.pt")
    (tmp_path / "tmp-checkpoint").rename(tmp_path / "checkpoint-500")

    assert looked(saved)[0].there


def test_a_file_that_was_removed_or_cut_is_told_from_a_whole_one(tmp_path):
    for name in ("gone.pt", "cut.pt", "empty.pt", "whole.pt"):
        (tmp_path / name).write_bytes(archive())
    saved = [on_disk(tmp_path / name) for name in ("gone.pt", "cut.pt", "empty.pt", "whole.pt")]
    (tmp_path / "gone.pt").unlink()
    os.truncate(tmp_path / "cut.pt", 3000)
    os.truncate(tmp_path / "empty.pt", 0)

    assert [(one.there, one.whole) for one in looked(*saved)] == [
        (False, None), (True, False), (True, False), (True, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("now", "whole"),
    [
        (b"epoch=5.ckpt", False),
        (b"\x80\x02" + b"0" * 100, False),  # of the format that torch.save had before
        (b"0" * 9000, None),  # something else, and larger
        (b"\x1f\x8b" + b"0" * 100, None),  # packed
    ],
)
def test_a_file_that_was_written_over_is_whole_no_more_if_it_became_smaller(tmp_path, now, whole):
    (tmp_path / "model.pt").write_bytes(archive())
    saved = on_disk(tmp_path / "model.pt")
    (tmp_path / "model.pt").write_bytes(now)

    assert looked(saved)[0].whole is whole


def test_what_was_saved_there_later_is_not_held_against_the_one_before(tmp_path):
    (tmp_path / "model.pt").write_bytes(archive())
    before = on_disk(tmp_path / "model.pt", where=LINE)
    (tmp_path / "model.pt").write_bytes(b"\x80\x02smaller")
    later = on_disk(tmp_path / "model.pt", where=OTHER)

    assert [one.whole for one in looked(before, later)] == [None, None]


def test_what_was_never_seen_on_disk_is_not_looked_for():
    assert looked(Saved("gs://bucket/model.pt", 1.0, 0.1))[0].there is None


def test_a_save_that_goes_on_is_told_with_its_size_and_speed(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"0" * (4 << 20))
    goes_on = Saving(str(tmp_path / "model.pt"), 8.0, where=LINE, expected=8 << 20)
    one = msgspec.structs.replace(process(ended=None, saving=[goes_on]), alive=True)

    (seen,) = with_checkpoints([one], 0.0)
    told = activities(Case(Evidence(Run("run"), recording=[seen])))[-1]

    assert told.live
    assert told.doing.startswith(f"saving {tmp_path}/model.pt (train.py:30), 4.0 MiB of about 8.0 MiB so far, ")


# Why there was no room


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (failed(1.0, said=HIDDEN, free=0, total=1 << 30), DISK),
        (failed(1.0, said=HIDDEN, free=50 << 20, total=1 << 30, size=10 << 20), DISK),  # 100 MiB were needed
        (failed(1.0, said=HIDDEN, free=900 << 20, total=1 << 30), ""),
        (failed(1.0, said=HIDDEN, free=900 << 20, files=0), FILES),
        (failed(1.0, said=HIDDEN, free=900 << 20, limit=5 << 20, size=5 << 20), LIMIT),
        (failed(1.0, said=HIDDEN, causes=["OSError: [Errno 28] No space left on device"], free=0), DISK),
        (failed(1.0, said="OSError: [Errno 122] Disk quota exceeded", free=900 << 20), QUOTA),
        (failed(1.0, said=HIDDEN, errno=errno.EIO, free=0), ""),
        (failed(1.0, said="SafetensorError: I/O error: No space left on device (os error 28)"), DISK),
        (failed(1.0, free=0), ""),
    ],
)
def test_the_reason_is_the_systems_own_or_the_state_of_the_disk(one, why):
    assert refused(one, 100 << 20) == why


def test_a_full_disk_that_the_training_swallowed_is_no_crash_and_stands_above_the_missing_file():
    report = report_on(Evidence(Run("run", status=0), recording=[process(failed(50.0, said=HIDDEN, free=0))]))

    assert [(one.rule, one.role) for one in report.findings] == [
        ("checkpoint-disk-full", "root"), ("checkpoint-missing", "consequence"),
    ]  # fmt: skip
    assert report.state == "wrong"


def test_a_full_disk_that_was_made_up_for_is_no_finding():
    assert found(process(failed(50.0, said=HIDDEN, free=0), kept(51.0))) == []


def test_a_disk_that_stays_full_is_told_from_the_first_failure_on_with_all_remains():
    before = failed(20.0, said=HIDDEN, free=0, size=10)
    series = [failed(at, said=HIDDEN, free=0, size=10) for at in (40.0, 50.0, 60.0, 70.0, 80.0, 90.0)]
    (one, _) = report_on(Evidence(Run("run", status=0), recording=[process(before, kept(30.0), *series)])).findings

    assert (one.rule, one.onset_s) == ("checkpoint-disk-full", 40.0)
    assert "last 6 checkpoints" in one.cause
    removal = one.alternatives[-1]
    assert removal.commands[-1] == "rm -i /out/50.0.pt /out/60.0.pt /out/70.0.pt /out/80.0.pt /out/90.0.pt"
    assert "python -m zipfile -t /out/90.0.pt" in removal.commands
    assert "of all 6" in removal.text


def test_what_is_gone_or_was_saved_again_is_not_to_be_removed():
    gone, last = failed(40.0, said=HIDDEN, free=0, size=10, there=False), failed(60.0, said=HIDDEN, free=0)
    mended = failed(50.0, said=HIDDEN, free=0, size=10)
    again = Saved(mended.path, 51.0, 0.1, size=1000, inode=1, where=OTHER)
    (one, *_) = report_on(Evidence(Run("run", status=0), recording=[process(gone, mended, again, last)])).findings

    assert "last 2 checkpoints" in one.cause
    assert not any("rm " in command for each in (one.remedy, *one.alternatives) for command in each.commands)


# Whether one is missing


def test_a_failure_after_which_training_went_on_is_found():
    assert found(process(kept(10.0), failed(50.0))) == ["checkpoint-missing"]


def test_the_first_of_a_series_is_when_it_began():
    failures = [failed(50.0), failed(60.0), failed(70.0)]
    gone = [kept(at, there=at < 30) for at in (10.0, 20.0, 30.0, 40.0)]
    cut = [kept(10.0, whole=True), kept(20.0, whole=False, size_now=3), kept(30.0, whole=False, size_now=3)]
    began = []
    for saved in ([failed(5.0), kept(10.0), *failures], gone, cut):
        report = report_on(Evidence(Run("run", status=0), recording=[process(*saved)]))
        began += [(one.rule, one.onset_s) for one in report.findings]

    assert began == [("checkpoint-missing", 50.0), ("checkpoint-missing", 30.0), ("checkpoint-missing", 20.0)]


def test_another_way_of_saving_after_a_failure_is_healthy():
    assert found(process(failed(50.0), kept(50.2, OTHER))) == []


def test_a_copy_that_fails_each_time_after_the_checkpoint_itself_is_no_missing_checkpoint():
    assert found(process(kept(10.0), failed(10.5, OTHER), kept(50.0), failed(50.5, OTHER))) == []


def test_a_process_that_its_own_code_ended_after_a_failure_knows_of_it():
    one = process(failed(99.5))
    assert [each.rule for each in report_on(Evidence(Run("run", status=1), recording=[one])).findings] == []


def test_the_newest_being_gone_counts_only_where_older_ones_stay_and_nobody_chooses():
    older, newest = [kept(10.0, there=True), kept(20.0, there=True)], kept(30.0, there=False)

    assert found(process(*older, newest)) == ["checkpoint-missing"]
    assert found(process(newest)) == []  # moved each time, perhaps
    assert found(process(*(msgspec.structs.replace(one, there=False) for one in older), newest)) == []
    assert found(process(*older, newest, phases=[Phase("validation", 0, 5.0)])) == []


def test_the_oldest_being_gone_is_how_the_last_few_are_kept():
    assert found(process(kept(10.0, there=False), kept(20.0, there=True), kept(30.0, there=True))) == []


def test_a_file_without_an_end_is_found():
    assert found(process(kept(10.0, there=True, whole=False, size_now=300))) == ["checkpoint-missing"]


# Whether saving is slow


def saves(count: int, seconds: float, every: float = 15.0, **fields) -> list[Saved]:
    return [
        Saved(f"/out/{number}.pt", 5.0 + every * number, seconds, size=1 << 30, where=LINE, **fields)
        for number in range(count)
    ]


def test_saving_is_slow_by_its_share_of_the_run_and_not_by_its_length():
    assert found(process(*saves(5, 5.0))) == ["slow-checkpoint"]
    assert found(process(*saves(5, 2.0))) == []


def test_one_long_checkpoint_is_no_habit_and_one_at_the_end_holds_up_nobody():
    assert found(process(*saves(1, 60.0))) == []
    assert found(process(Saved("/out/a.pt", 10.0, 20.0), Saved("/out/b.pt", 99.5, 20.0))) == []


def test_whoever_saves_too_often_is_told_that_alone():
    report = report_on(Evidence(Run("run", status=0), recording=[process(*saves(90, 0.5, every=0.9))]))

    assert "at most, not every 900 ms: saving then takes about 2 %" in report.findings[0].remedy.text


def test_what_is_written_in_the_background_costs_what_it_held_up():
    assert found(process(*saves(5, 0.2, background=True, writing=10.0))) == []
    assert found(process(*saves(5, 8.0, background=True, writing=1.0))) == ["slow-checkpoint"]
