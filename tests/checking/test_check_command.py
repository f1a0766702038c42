"""`unstuck check` as a user meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import shards

from stuck import wait_for

pytestmark = pytest.mark.scenario


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "data").mkdir()
    for number in range(4):
        shards.write(tmp_path / "data" / f"s-{number:03d}.tar", shards.members(8, number))
    return tmp_path


def cut(path: Path, share: float = 0.5) -> int:
    place = int(path.stat().st_size * share) // 512 * 512 + 100
    os.truncate(path, place)
    return place


def slow(folder: Path) -> Path:
    """A shard that takes seconds to read, and no place on the disk."""
    path = folder / "data" / "z-long.tar"
    info = tarfile.TarInfo("0.bin")
    info.size = 400 << 30
    with open(path, "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.truncate(512 + info.size + 1024)
    return path


def readers(folder: Path) -> set[str]:
    """Those that work here: other tests have theirs."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            ours = b"unstuck.checking.workers" in Path(f"/proc/{pid}/cmdline").read_bytes()
            if ours and os.readlink(f"/proc/{pid}/cwd") == str(folder):
                found.add(pid)
        except OSError:
            continue
    return found


def opened(path: Path) -> bool:
    """Whether a reader has come to it."""
    links = (link for pid in readers(path.parents[1]) for link in Path(f"/proc/{pid}/fd").iterdir())
    return any(os.path.exists(link) and os.readlink(link) == str(path) for link in links)


def test_whole_data_is_one_calm_line(unstuck, folder):
    ended = unstuck("check", "data", cwd=folder)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("✓ healthy  4 files, 32 samples, ")


def test_a_bad_shard_is_named_with_what_it_costs(unstuck, folder):
    cut(folder / "data" / "s-002.tar")

    ended = unstuck("check", "data/*.tar", "--json", cwd=folder)
    report = json.loads(ended.stdout)

    assert ended.returncode == 1
    (finding,) = report["findings"]
    assert finding["subject"]["name"].endswith("s-002.tar")
    assert report["data"]["files"][2]["faults"][0]["kind"].startswith("tar-cut")
    assert Path(folder / report["evidence"]).exists()


def test_a_check_can_be_shown_again(unstuck, folder):
    cut(folder / "data" / "s-001.tar")
    first = unstuck("check", "data", cwd=folder)
    (kept,) = (folder / "unstuck-runs").iterdir()

    again = unstuck("why", kept, cwd=folder)

    assert again.returncode == first.returncode == 1
    assert "s-001.tar" in again.stdout


def test_a_shard_of_a_range_that_is_not_there_is_missed(unstuck, folder):
    (folder / "data" / "s-001.tar").unlink()

    ended = unstuck("check", "data/s-{000..003}.tar", "--json", cwd=folder)

    report = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert report["data"]["absent"] == ["data/s-001.tar"]
    assert report["findings"][0]["rule"] == "shard-missing"


def test_originals_are_not_touched(unstuck, folder):
    cut(folder / "data" / "s-002.tar")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (folder / "data").iterdir()}

    unstuck("check", "data", "--decode", "--write-manifest", "m.jsonl", "--quarantine", "bad.txt", cwd=folder)

    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (folder / "data").iterdir()} == before


def test_a_changed_byte_is_found_against_a_manifest(unstuck, folder):
    written = unstuck("check", "data", "--write-manifest", "m.jsonl", cwd=folder)
    path = folder / "data" / "s-003.tar"
    data = bytearray(path.read_bytes())
    data[512 + 200] ^= 1  # within the first image
    path.write_bytes(data)

    plain = unstuck("check", "data", cwd=folder)
    ended = unstuck("check", "data", "--against", "m.jsonl", "--json", cwd=folder)
    report = json.loads(ended.stdout)

    assert (written.returncode, plain.returncode, ended.returncode) == (0, 0, 1), ended.stderr
    (fault,) = report["data"]["files"][3]["faults"]
    assert (fault["kind"], fault["member"], fault["sample"]) == ("manifest", "000000.jpg", "000000")
    assert report["findings"][0]["rule"] == "manifest-disagrees"


def test_a_manifest_as_path_says_which_files(unstuck, folder):
    unstuck("check", "data", "--write-manifest", "m.jsonl", cwd=folder)
    (folder / "data" / "s-000.tar").unlink()

    ended = unstuck("check", "m.jsonl", "--json", cwd=folder)

    report = json.loads(ended.stdout)
    assert len(report["data"]["files"]) == 3
    assert [Path(one).name for one in report["data"]["absent"]] == ["s-000.tar"]


def test_bad_samples_are_quarantined(unstuck, folder):
    path = folder / "data" / "s-001.tar"
    data = path.read_bytes()
    place = data.index(b'{"caption": "picture 2"')
    path.write_bytes(data[:place] + b"#" + data[place + 1 :])

    ended = unstuck("check", "data", "--decode", "--quarantine", "bad.txt", cwd=folder)

    assert ended.returncode == 1
    assert '"000002"]' in (folder / "bad.txt").read_text()
    assert "wds.WebDataset" in ended.stdout
    assert "Subset" in ended.stdout


def test_a_sample_of_the_files_says_what_it_leaves_unknown(unstuck, folder):
    cut(folder / "data" / "s-001.tar")

    ended = unstuck("check", "data", "--sample", "25%", "--json", cwd=folder)

    files = json.loads(ended.stdout)["data"]["files"]
    assert sum(one.get("whole", True) for one in files) == 1
    assert files[1]["faults"], "its end tells that it is cut, though it was not read"


def test_an_interrupted_check_leaves_nothing_running_and_goes_on_where_it_was(unstuck, folder):
    path = slow(folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "unstuck", "check", "data", "--processes", "1"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: opened(path))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    path.unlink()
    shards.write(path, shards.members(8, 9))

    again = unstuck("check", "data", "--processes", "1", "--resume", cwd=folder)

    assert process.returncode == 130
    assert "interrupted" in out
    assert readers(folder) == set()
    assert again.returncode == 0, again.stdout + again.stderr
    (kept,) = (folder / "unstuck-runs").iterdir()
    lines = [json.loads(line)["file"]["path"] for line in (kept / "checked.jsonl").read_text().splitlines()]
    assert sorted(lines) == sorted(f"data/{one.name}" for one in (folder / "data").iterdir()), "each was read once"


BAD = {
    "nothing there": (["nowhere"], "there is no file at nowhere"),
    "a glob that finds nothing": (["data/*.parquet"], "there is no file at data/*.parquet"),
    "a range the wrong way round": (["data/s-{9..3}.tar"], "is no range"),
    "a share of more than all": (["data", "--sample", "120%"], "is not a share"),
    "nothing to resume": (["data", "--resume"], "was interrupted"),
    "no manifest": (["data", "--against", "nowhere.json"], "nowhere.json"),
    "an address nobody knows": (["nonsense://bucket/x"], "nonsense://bucket/x"),
}


@pytest.mark.parametrize(("words", "said"), BAD.values(), ids=BAD)
def test_bad_input_is_one_clear_line(unstuck, folder, words, said):
    ended = unstuck("check", *words, cwd=folder)

    assert ended.returncode == 2
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert ended.stdout == ""


def test_what_is_no_data_is_not_called_whole(unstuck, tmp_path):
    (tmp_path / "notes.md").write_text("# nothing to train on\n")

    ended = unstuck("check", "notes.md")

    assert ended.returncode == 2
    assert "no data format" in ended.stdout
