"""Which files on the command line list others: never one that is data itself."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
import shards

from unstuck.checking.manifests import is_manifest, read

SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def asked(folder: Path, name: str, content: str) -> bool:
    path = folder / name
    path.write_text(content)
    return is_manifest(str(path), path.read_bytes()[:4096])


@pytest.fixture
def folder(tmp_path) -> Path:
    for name in ("00000.tar", "00001.tar"):
        shards.write(tmp_path / name, shards.members(1))
    (tmp_path / "1.jpg").write_bytes(b"x")
    return tmp_path


LISTS = {
    "index.json": json.dumps({"wids_version": 1, "shardlist": [{"url": "00000.tar", "nsamples": 1}] * 500}, indent=1),
    "mosaic.json": json.dumps(
        {"shards": [{"column_names": ["x"], "raw_data": {"basename": "shard.0.mds", "bytes": 1}}]}
    ),
    "sizes.json": json.dumps({"00000.tar": 1000, "00001.tar": 999}),
    "long.json": json.dumps({"shards": [{"path": f"{number:05d}.tar", "samples": 1} for number in range(999)]}),
    "manifest.jsonl": '{"shard": "00000", "num_sequences": 8192}\n{"shard": "00001", "num_sequences": 8}\n',
    "shards.jsonl": '{"path": "00000.tar", "size": 10240}\n{"path": "00009.tar", "size": 10240}\n',
    "SHA256SUMS": f"{SHA256}  00000.tar\n{SHA256} *gone.tar\n",
    "train.txt": "00000.tar\n00001.tar\n",
    "range.txt": "{00000..00001}.tar\n",
    "images.txt": "1.jpg\n",
    "shards.csv": "name,num_samples\n00000.tar,12\n00001.tar,13\n",
    "bucket.txt": "s3://bucket/00000.tar\ns3://bucket/00001.tar\n",
}
DATA = {
    "texts.jsonl": '{"text": "read 00000.tar", "url": "https://example.com/a.html", "length": 12}\n' * 3,
    "images.jsonl": '{"path": "1.jpg", "size": 1}\n{"path": "1.jpg", "size": 1}\n',
    "about-shards.jsonl": '{"file": "00000.tar", "text": "no counts"}\n' * 2,
    "elsewhere.jsonl": '{"file": "not-here.tar", "count": 5}\n' * 2,
    "one.json": json.dumps({"caption": "a cat", "path": "1.jpg", "width": 10}),
    "rows.json": json.dumps([{"text": "x", "count": 5}, {"text": "y", "count": 7}]),
    "story.txt": "Once there was a shard.\nIt was called 00000.tar\n",
    "labels.csv": "filename,label\n1.jpg,3\n",
    "numbers.csv": "a,b\n1,2\n",
    "empty.txt": "",
    "stats.json": json.dumps({"count": 10000, "successes": 8017, "duration": 151.2}),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_files_is_recognised_and_can_be_read(folder, name):
    assert asked(folder, name, LISTS[name])
    assert read(str(folder / name)).files


@pytest.mark.parametrize("name", DATA)
def test_data_is_not_taken_for_a_list_of_files(folder, name):
    assert not asked(folder, name, DATA[name])


def test_shards_themselves_are_no_lists(folder):
    pa.parquet.write_table(pa.table({"path": ["00000.tar"], "samples": [1]}), folder / "a.parquet")
    for name in ("00000.tar", "a.parquet"):
        assert not is_manifest(str(folder / name), (folder / name).read_bytes()[:4096])


def test_a_range_without_end_costs_nothing_to_recognise(folder):
    assert not asked(folder, "bomb.txt", "{0..9}" * 600 + ".tar\n")
    assert not asked(folder, "bomb.json", "[" * 4000)
