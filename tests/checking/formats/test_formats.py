"""Formats are found by their folder: a further one is a further file, and no other is edited."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from unstuck.checking import formats
from unstuck.checking.check import check
from unstuck.checking.notes import Wish

WAVES = '''
"""Sound."""

from unstuck.checking.formats import Format


def claims(head):
    return head.startswith(b"WAVE")


def read(stream, notes):
    notes.facts(samples=1)
    if b"noise" in stream.head:
        notes.fault("damaged", "there is noise in it", at=stream.head.index(b"noise"))


def decoded(data):
    return "there is noise in it" if b"noise" in bytes(data) else ""


SOUND = Format("sound", (".wave",), claims, read, decoded=decoded, fault="noise")
'''


@pytest.fixture
def further(tmp_path, monkeypatch):
    """A format whose file lies in a folder of its own, as if it were among the others."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "further_waves.py").write_text(WAVES)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "more")])
    formats.formats.cache_clear()
    yield
    formats.formats.cache_clear()
    sys.modules.pop("unstuck.checking.formats.further_waves", None)


def test_a_file_of_a_further_format_is_read_by_it(tmp_path, further):
    (tmp_path / "a").write_bytes(b"WAVE and noise")
    file = check(str(tmp_path / "a"), Wish()).file
    assert (file.format, file.samples) == ("sound", 1)
    assert [(fault.kind, fault.at) for fault in file.faults] == [("damaged", 9)]


def test_a_further_format_is_known_by_the_name_of_a_file_too(tmp_path, further):
    (tmp_path / "a.wave").write_bytes(b"")
    assert [fault.kind for fault in check(str(tmp_path / "a.wave"), Wish()).file.faults] == ["empty"]


def test_a_member_of_a_further_format_is_decoded_in_an_archive(tmp_path, further):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.wave", b"WAVE and noise")
        archive.writestr("b.wave", b"WAVE")
    file = check(str(tmp_path / "a.zip"), Wish(decode=True)).file
    assert (file.decoded, [fault.kind for fault in file.faults]) == (2, ["noise"])


def test_each_format_has_a_name_and_endings_of_its_own():
    known = formats.formats()
    endings = [ending for kind in known for ending in kind.endings]
    assert len({kind.name for kind in known}) == len(known) == 11
    assert len(set(endings)) == len(endings)


def test_to_know_all_formats_loads_no_large_library():
    program = "import sys; from unstuck.checking.formats import formats; formats(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "unstuck.checking.formats.parquet" in loaded
    assert {"pyarrow", "PIL", "fsspec", "ray", "torch"}.isdisjoint(loaded)


def test_whoever_has_files_read_loads_no_format():
    program = "import sys; import unstuck.cli.check; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "unstuck.checking.formats" in loaded
    assert [name for name in loaded if name.startswith("unstuck.checking.formats.")] == []
    assert "numpy" not in loaded
