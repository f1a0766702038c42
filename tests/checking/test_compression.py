"""Compressed files: what they hold, and damage to them, made for real by the libraries and tools that write them."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import lzma
import random
import shutil
import subprocess
import zlib

import pyarrow as pa
import pytest
from harm import cuts, flips, kinds, seen

from unstuck.checking import compression
from unstuck.checking.compression import compression_of
from unstuck.checking.files import Stream
from unstuck.checking.notes import Notes, Wish

DRAW = random.Random(0)
WORDS = ["".join(DRAW.choices("abcdefghij", k=DRAW.randrange(2, 9))) for _ in range(500)]
LINES = b"".join(json.dumps({"text": " ".join(DRAW.choices(WORDS, k=12))}).encode() + b"\n" for _ in range(900))


def arrow(kind: str, data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, kind) as stream:
        stream.write(data)
    return out.getvalue().to_pybytes()


def tool(*words: str) -> bytes:
    """zstd and lz4 as people use them: with a checksum of the content."""
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not installed")
    return subprocess.run(words, input=LINES, capture_output=True, check=True).stdout


MAKERS = {
    "gzip": lambda: gzip.compress(LINES),
    "gzip members": lambda: b"".join(gzip.compress(LINES[at : at + 20_000]) for at in range(0, len(LINES), 20_000)),
    "gzip padded": lambda: gzip.compress(LINES[:5000]) + bytes(700) + gzip.compress(LINES[5000:]) + bytes(9000),
    "bzip2": lambda: bz2.compress(LINES),
    "bzip2 members": lambda: bz2.compress(LINES[:9000]) + bz2.compress(LINES[9000:]),
    "xz": lambda: lzma.compress(LINES),
    "xz members": lambda: lzma.compress(LINES[:9000]) + bytes(8) + lzma.compress(LINES[9000:]),
    "zstd": lambda: arrow("zstd", LINES),
    "zstd members": lambda: arrow("zstd", LINES[:9000]) + arrow("zstd", LINES[9000:]),
    "zstd behind a skippable frame": lambda: b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + arrow("zstd", LINES),
    "zstd tool": lambda: tool("zstd", "-c"),
    "lz4": lambda: arrow("lz4", LINES),
    "lz4 tool": lambda: tool("lz4", "-c"),
}
CHECKSUMMED = ("gzip", "gzip members", "bzip2", "xz", "zstd tool", "lz4 tool")


def held(data: bytes) -> tuple[bytes, list[str]]:
    """What a format gets of it, and what is noted."""
    notes = Notes("", len(data), Wish())
    return all_of(io.BytesIO(data), notes), [one.kind for one in notes.file().faults]


def all_of(raw: io.BytesIO, notes: Notes) -> bytes:
    stream, found, buffer = Stream(raw, notes), b"", memoryview(bytearray(1000))
    while got := stream.readinto(buffer):
        found += buffer[:got]
    return found


@pytest.mark.parametrize("kind", MAKERS)
def test_a_whole_file_gives_all_it_holds_and_has_no_fault(kind, tmp_path):
    data = MAKERS[kind]()

    file = seen(tmp_path, "lines.jsonl.x", data)

    assert held(data) == (LINES, [])
    assert (file.compression, file.faults, file.samples) == (kind.split()[0], [], 900)


@pytest.mark.scenario
@pytest.mark.parametrize("kind", MAKERS)
def test_every_cut_is_reported_and_what_came_before_is_given(kind):
    data = MAKERS[kind]()
    for short in cuts(data, 60):
        if not compression_of(short):
            continue
        found, faults = held(short)
        if found != LINES:  # padding may be cut, and between two members nothing shows
            assert LINES.startswith(found)
            assert faults == ["cut"] or kind.endswith(("members", "padded"))


def test_a_cut_gzip_file_gives_every_byte_that_zlib_can_give():
    data = gzip.compress(LINES)

    for short in cuts(data, 40):
        if compression_of(short):
            assert held(short)[0] == zlib.decompressobj(wbits=31).decompress(short)


@pytest.mark.scenario
@pytest.mark.parametrize("kind", CHECKSUMMED)
def test_no_altered_byte_alters_the_content_unnoticed(kind):
    data = MAKERS[kind]()
    for at, bad in flips(data, 150):
        found, faults = held(bad)
        if compression_of(bad):
            assert faults or found == LINES, f"byte {at}"


@pytest.mark.scenario
def test_what_comes_before_damage_in_a_gzip_file_is_given_to_the_byte():
    data = gzip.compress(LINES)
    for _, bad in flips(data, 25):
        found, faults = held(bad)
        assert faults in ([], ["damaged"], ["cut"])
        assert found == one_by_one(bad)


def one_by_one(data: bytes) -> bytes:
    machine, found = zlib.decompressobj(wbits=31), b""
    try:
        for at in range(len(data)):
            found += machine.decompress(data[at : at + 1])
    except zlib.error:
        pass
    return found if data[:3] == b"\x1f\x8b\x08" else data


@pytest.mark.parametrize("kind", MAKERS)
def test_garbage_behind_the_end_is_damage(kind):
    found, faults = held(MAKERS[kind]() + b"something else")

    assert faults == ["damaged"]
    assert LINES.startswith(found)


def test_damage_says_where_it_is_in_the_file_and_in_what_it_holds(tmp_path):
    data = gzip.compress(LINES)

    (fault,) = seen(tmp_path, "a.jsonl.gz", data[:-8] + b"\0\0\0\0" + data[-4:]).faults

    assert (fault.kind, fault.at) == ("damaged", len(LINES))
    assert "incorrect data check" in fault.what
    assert f"at byte {len(data) - 5:,} of the file" in fault.what


@pytest.mark.scenario
@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz", "zstd", "lz4"])
def test_a_bomb_is_not_read_on(kind, tmp_path, monkeypatch):
    # Given something that becomes far larger than it is
    monkeypatch.setattr(compression, "ROOM", 1 << 20)
    monkeypatch.setattr(compression, "RATIO", 50)
    zeros = b'{"text": "' + bytes(b" " * (16 << 20)) + b'"}\n'
    makers = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
    data = makers[kind](zeros) if kind in makers else arrow(kind, zeros)

    # When it is checked
    file = seen(tmp_path, "bomb.jsonl.x", data)

    # Then it ends there, and that is said; and nothing of it was ever large
    assert [one.kind for one in file.faults if one.kind != "cut"] == ["hostile"]
    assert file.faults[0].at < 4 << 20
    source = compression.Source(data, lambda _: b"")
    assert max(map(len, compression.pieces(kind, source))) <= compression.PIECE


def test_what_is_well_compressed_is_no_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(compression, "ROOM", 1 << 20)
    lines = b"".join(b'{"text": "line %d of a log that repeats itself"}\n' % at for at in range(60_000))

    assert kinds(tmp_path, "log.jsonl.gz", gzip.compress(lines)) == []


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "zstd"])
def test_an_error_of_the_storage_stays_one(kind):
    class Bad(io.BytesIO):
        def read(self, count=-1):
            if self.tell() >= 4096:
                raise OSError(errno.EIO, "Input/output error")
            return super().read(count)

    with pytest.raises(OSError, match="Input/output error") as caught:
        all_of(Bad(MAKERS[kind]()), Notes("", 0, Wish()))

    assert caught.value.errno == errno.EIO


def test_without_a_library_it_is_said_which_one_is_needed(monkeypatch):
    monkeypatch.setattr(compression, "find_spec", lambda _: None)

    with pytest.raises(compression.MissingLibrary, match=r"zstd, needs pyarrow: pip install 'unstuck\[data\]'"):
        Stream(io.BytesIO(arrow("zstd", LINES)), Notes("", 0, Wish()))


def test_a_digest_is_of_all_bytes_also_behind_damage(tmp_path):
    data = gzip.compress(LINES)
    bad = data[:3000] + bytes(2000) + data[5000:] + bytes(300_000)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(bad)

    from unstuck.checking.check import check

    assert check(str(path), Wish(algorithm="crc32")).digest == f"crc32:{zlib.crc32(bad):08x}"


def test_a_dictionary_of_gibibytes_is_refused():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1 << 20}]
    data = bytearray(lzma.compress(LINES, filters=filters))
    # The header of the block says how large the dictionary is: 4 GiB, with a checksum that agrees.
    place = data.index(b"\x21\x01", 12) + 2
    data[place] = 40
    end = 12 + (data[12] + 1) * 4
    data[end - 4 : end] = zlib.crc32(bytes(data[12 : end - 4])).to_bytes(4, "little")

    assert held(bytes(data)) == (b"", ["hostile"])
