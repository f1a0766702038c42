"""What a person sees of a check: while it reads, and when it is over."""

from __future__ import annotations

import io
import subprocess
import sys

import msgspec

from unstuck.analysis.case import Case
from unstuck.evidence import Evidence, Run
from unstuck.evidence.data import Asked, Data, DataFile, Fault, Folder, Listed, Manifest, Speed
from unstuck.evidence.finding import Finding, Remedy
from unstuck.report import Report, RunName
from unstuck.reporting.bad_files import bad_files
from unstuck.views.checks import show_check
from unstuck.views.console import console_for
from unstuck.views.progress import Reading

MIB, GIB = 1 << 20, 1 << 30
SHARDS = "/mnt/lustre/projects/vision/datasets/laion/shards"
FOUND = Finding(
    "A shard is damaged.",
    [f"{SHARDS}/train-000017.tar: byte 512"],
    Remedy("Fetch it again."),
    rule="some-rule",
    symptom="bad data",
)


def shard(number: int, *faults: Fault, samples: int | None = 1000, **more: object) -> DataFile:
    counts = {one.kind: sum(each.kind == one.kind for each in faults) for one in faults}
    facts = {"format": "tar", "size": 512 * MIB, "read": 512 * MIB, "counts": counts, **more}
    return DataFile(f"{SHARDS}/train-{number:06d}.tar", samples=samples, faults=[*faults], **facts)


def data(files: list[DataFile], **more: object) -> Data:
    return Data(**{"asked": Asked([SHARDS], decode=True), "files": files, "seconds": 123.4, **more})


def shown(data: Data, *findings: Finding, state: str = "healthy", width: int = 120) -> list[str]:
    out = io.StringIO()
    report = Report(
        "0",
        RunName("check", [], 0.0, "here"),
        "wrong" if findings else state,
        [*findings],
        data=data,
        bad_files=bad_files(Case(Evidence(run=Run("check"), data=data))),
    )
    show_check(report, console_for(out, width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_data_set_that_is_well_deserves_one_line():
    well = data([shard(number) for number in range(128)], speeds=[Speed("cold", 128, 64 * GIB, 120.0)])

    assert shown(well, width=80) == ["✓ healthy  128 files, 128,000 samples, 64 GiB read in 2 min 3 s (531 MiB/s cold)"]


def test_files_of_one_sample_each_are_counted_by_folder():
    pictures = data(
        [], folders=[Folder("/data/cats", "image", 900, 90 * MIB), Folder("/data/dogs", "image", 100, 10 * MIB)]
    )

    assert shown(pictures) == ["✓ healthy  1,000 files, 1,000 samples, 100 MiB read in 2 min 3 s (830 KiB/s)"]


def test_files_are_listed_by_what_is_lost_and_the_others_summed_up():
    image = Fault("image", "cut", member="000342.jpg", sample="000342", at=1024, lost=1)
    files = [shard(number) for number in range(100)]
    files[17] = shard(17, Fault("tar-bad-header", "damaged", at=26_624, lost=388), samples=612)
    files[40] = shard(40, Fault("empty", "no bytes"), samples=None, size=0, read=0)
    files[63] = shard(63, image, image, image)

    lines = shown(data(files), FOUND, width=100)

    assert lines[:7] == [
        "  samples lost  file                                   what is wrong",
        "     all 1,000  …tasets/laion/shards/train-000040.tar  has no bytes at all",
        "  388 of 1,000  …tasets/laion/shards/train-000017.tar  has a damaged header, byte 26,624",
        "    3 of 1,000  …tasets/laion/shards/train-000063.tar  an image cannot be decoded, 000342.jpg; 2",
        "                                                       more places",
        "  97 other files without a fault of their own: 97,000 samples, 48 GiB, tar",
        "",
    ]
    assert lines[7].startswith("✗ bad data[")
    assert f"{SHARDS}/train-000017.tar" in "".join(line.strip() for line in lines[8:])
    assert "  checked  100 files, 98,612 samples, 50 GiB read in 2 min 3 s (411 MiB/s)" in lines


def test_a_habit_of_the_writer_is_no_row_of_the_table():
    files = [shard(number, Fault("tar-no-end", "no end", at=9)) for number in range(50)]
    files[3] = shard(3, Fault("zeros", "zeros", sample="000003", at=9, lost=1))

    lines = shown(data(files), FOUND)

    assert lines[1:3] == [
        "    1 of 1,000  …ision/datasets/laion/shards/train-000003.tar  holds zeros instead of data, 000003",
        "  49 other files without a fault of their own: 49,000 samples, 24 GiB, tar",
    ]


def test_the_table_ends_after_twenty_rows():
    lost = Fault("cut", "cut", at=5)
    lines = shown(data([shard(number, lost) for number in range(127)], absent=["/data/gone.tar"]), FOUND)

    assert sum("is truncated, byte 5" in line for line in lines) == 19
    assert any(line.split() == ["?", "/data/gone.tar", "is", "missing"] for line in lines)
    assert "  and 108 more files" in lines


def test_what_a_manifest_lists_and_is_not_there_is_a_row():
    manifest = Manifest(
        f"{SHARDS}/m", [Listed(f"{SHARDS}/train-000000.tar"), Listed(f"{SHARDS}/train-000001.tar", samples=20)]
    )

    lines = shown(data([shard(0)], manifest=manifest, absent=[f"{SHARDS}/train-000001.tar"]), FOUND)

    assert lines[1] == "        all 20  …ision/datasets/laion/shards/train-000001.tar  is missing"


def test_names_cannot_do_anything_to_the_terminal():
    evil = DataFile("/data/\x1b[2Jevil\n.tar", "tar", faults=[Fault("empty", "x")], counts={"empty": 1})
    strange = DataFile("/data/\x1b]0;x\x07", unread="Permission denied")

    lines = shown(data([evil, strange]), FOUND)

    assert not any("\x1b" in line or "\x07" in line for line in lines)
    assert any(r"/data/\x1b[2Jevil\n.tar" in line for line in lines)


def test_what_was_not_looked_at_is_said():
    files = [shard(0), *(shard(number, samples=None, whole=False, read=4096) for number in range(1, 20))]
    files += [DataFile(f"/data/{number}.parquet", "parquet", unread="needs pyarrow") for number in range(3)]
    files += [DataFile("/data/README.md", other="no data format that is known")]
    asked = Asked([SHARDS], sample=0.05)

    assert shown(data(files, asked=asked, stopped="it was interrupted"), state="unknown")[1:] == [
        "  stopped      it was interrupted: what was not read before is unknown; --resume continues",
        "  not read     3 files, such as /data/0.parquet: needs pyarrow",
        "  no data      /data/README.md: no data format that is known",
        "  unknown      --sample 5 % read 1 file completely, and only the ends of 19: what is between is unknown",
        "  not decoded  images, JSON and arrays in samples; --decode decodes them",
    ]


def test_reading_speed_is_told_apart_by_where_it_came_from():
    speeds = [Speed("cold", 80, 40 * GIB, 80.0), Speed("warm", 20, 10 * GIB, 4.0)]

    assert shown(data([shard(0)], speeds=speeds))[1:] == [
        "  reading  cold 512 MiB/s (80 files), warm 2.5 GiB/s (20 files), to each reader"
    ]


def test_a_saved_report_can_be_looked_at_alone(tmp_path):
    report = Report("0", RunName("check", [], 0.0, "here"), "healthy", data=data([shard(0)]))
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(report))

    command = [sys.executable, "-m", "unstuck.views.checks", str(tmp_path / "report.json")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert out == "✓ healthy  1 file, 1,000 samples, 512 MiB read in 2 min 3 s (4.1 MiB/s)\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def read_on(stream: io.StringIO, seconds: int, bad: int = 0) -> str:
    """So many seconds at 100 MiB/s, a file of 50 MiB after the other, of 1000 MiB."""
    now = [0.0]
    with Reading(stream, 20, 1000 * MIB, clock=lambda: now[0]) as reading:
        for number in range(seconds * 2):
            now[0] += 0.5
            reading.moved(50 * MIB)
            reading.ended(shard(number, *([Fault("empty", "")] if number < bad else [])))
    return stream.getvalue()


def test_progress_is_a_line_that_moves_and_is_gone_at_the_end(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    drawn = read_on(Terminal(), 5, bad=1).split("\r\x1b[K")

    assert drawn[-2] == "  checking: 9 of 20 files, 500 MiB of 1000 MiB, 100 MiB/s, 5 s left, 1 bad"
    assert drawn[-1] == ""
    assert len(drawn) == 8


def test_progress_is_a_line_now_and_then_where_nobody_can_overwrite_one():
    assert read_on(io.StringIO(), 9) == ""
    assert read_on(io.StringIO(), 10) == "unstuck: checking: 19 of 20 files, 1000 MiB of 1000 MiB, 100 MiB/s\n"


def test_what_an_earlier_check_has_read_is_no_speed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    now, stream = [0.0], Terminal()
    with Reading(stream, 20, 1000 * MIB, clock=lambda: now[0]) as reading:
        reading.moved(900 * MIB)
        for _ in range(50):
            now[0] += 0.1
            reading.moved(MIB)

    assert stream.getvalue().split("\r\x1b[K")[-2].startswith("  checking: 0 of 20 files, 9")
    assert " MiB of 1000 MiB, 10 MiB/s, 5 s left" in stream.getvalue()


def test_what_is_over_at_once_shows_nothing():
    assert read_on(Terminal(), 1) == ""


def test_a_line_that_moves_is_never_longer_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")

    assert max(len(one) for one in read_on(Terminal(), 8).split("\r\x1b[K")) == 39
