"""Files wherever they live: addresses of fsspec, storage that refuses, libraries that are missing."""

from __future__ import annotations

import os

import fsspec
import pytest
import shards
from fsspec.registry import known_implementations

from unstuck.checking.check import check
from unstuck.checking.files import find
from unstuck.checking.notes import Wish


@pytest.fixture
def address(tmp_path):
    system = fsspec.filesystem("memory")
    data = shards.write(tmp_path / "a.tar", shards.members(5)).read_bytes()
    system.pipe_file("/bucket/a.tar", data)
    yield "memory://bucket/a.tar"
    system.rm("/bucket", recursive=True)


def test_a_file_elsewhere_is_read_like_one_here(address):
    file = check(address, Wish()).file

    assert (file.format, file.samples, file.faults, file.cached) == ("tar", 5, [], None)


def test_a_folder_elsewhere_is_found_with_sizes(address):
    found = find(["memory://bucket"])

    assert [path.rpartition("/")[2] for path in found.files] == ["a.tar"]
    assert min(found.files.values()) > 5000


def test_whatever_storage_raises_is_a_line_about_the_file(address, monkeypatch):
    file = type(fsspec.filesystem("memory").open("/bucket/a.tar", "rb"))

    def refuse(*_):
        raise RuntimeError("500, message='Internal Server Error'")

    monkeypatch.setattr(file, "readinto", refuse)
    monkeypatch.setattr(file, "read", refuse)

    (fault,) = check(address, Wish()).file.faults

    assert fault.kind == "unreadable"
    assert fault.what == "read error at byte 0: RuntimeError: 500, message='Internal Server Error'"


def test_an_address_whose_library_is_missing_is_unread(monkeypatch):
    monkeypatch.setitem(known_implementations, "odd", {"class": "no.such.Module", "err": "install odd"})

    file = check("odd://bucket/a.tar", Wish()).file

    assert file.faults == []
    assert "install odd" in file.unread


def test_a_name_that_is_no_text_is_not_passed_over_in_silence(tmp_path):
    shards.write(tmp_path / "a.tar", shards.members(2))
    os.rename(tmp_path / "a.tar", os.path.join(os.fsencode(tmp_path), b"\xff.tar"))
    shards.write(tmp_path / "b.tar", shards.members(2))

    found = find([str(tmp_path)])

    assert [path.rpartition("/")[2] for path in found.files] == ["b.tar"]
    assert [path.rpartition("/")[2] for path in found.odd] == ["\\udcff.tar"]
