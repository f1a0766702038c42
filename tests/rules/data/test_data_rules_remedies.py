"""Commands and code that findings about data give do what they say."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
from test_data_rules import checked, file, found

from unstuck.checking.check import check
from unstuck.checking.notes import Wish
from unstuck.evidence.data import Texts


def ran(command: str, folder) -> str:
    words = shlex.split(command)
    words[0] = sys.executable if words[0] == "python" else words[0]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout


def printed(code: list[str], folder) -> str:
    """By the lines of Python in a remedy."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join(code)], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def test_an_archive_is_sorted_by_keys_and_its_samples_keep_their_order(tmp_path):
    # given images first, then captions, of keys in no order
    with tarfile.open(tmp_path / "a b.tar.gz", "w:gz") as archive:
        for name in ("d/7.jpg", "d/3.jpg", "d/7.txt", "d/3.seg.txt", "d/3.txt"):
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(name[-3:].encode()))
    apart = check(str(tmp_path / "a b.tar.gz"), Wish()).file
    (finding,) = found(checked(apart))
    assert finding.rule == "tar-keys-not-adjacent"
    # when
    printed(finding.alternatives[0].code, tmp_path)
    # then
    with tarfile.open(tmp_path / "sorted-a b.tar.gz", "r:gz") as archive:
        assert archive.getnames() == ["d/7.jpg", "d/7.txt", "d/3.jpg", "d/3.seg.txt", "d/3.txt"]
        assert archive.extractfile("d/3.txt").read() == b"txt"
    whole = check(str(tmp_path / "sorted-a b.tar.gz"), Wish()).file
    assert (whole.faults, whole.samples) == ([], 2)


def test_rows_without_a_text_are_printed(tmp_path):
    texts = ["a bird", None, "", " \n", "another"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "p-1.parquet")
    (tmp_path / "l-1.jsonl").write_text('{"text": "a bird"}\n{"text": ""}\n{"id": 3}\n')
    for name, rows in (("p-1.parquet", "[1, 2, 3]\n"), ("l-1.jsonl", "[1, 2]\n")):
        column = [Texts("text", 100, 1, 0, 9900)]
        bad = file(name, format=name.rpartition(".")[2], texts=column, samples=100)
        (finding,) = found(checked(bad, file("other", format="parquet", texts=column, samples=100)))

        assert printed(finding.remedy.code, tmp_path) == rows


def test_columns_of_an_odd_file_and_of_a_usual_one_are_printed(tmp_path):
    for number in range(3):
        table = pa.table({"text": ["a"], "label": ["x"] if number == 2 else [1]})
        pq.write_table(table, tmp_path / f"p-{number}.parquet")
    columns = [{"text": "string", "label": "string" if number == 2 else "int64"} for number in range(3)]
    files = [file(f"p-{number}.parquet", format="parquet", columns=columns[number]) for number in range(3)]
    (finding,) = found(checked(*files))

    shown = ran(finding.remedy.commands[0], tmp_path)

    assert "p-2.parquet\ntext: string\nlabel: string" in shown
    assert "p-0.parquet\ntext: string\nlabel: int64" in shown
