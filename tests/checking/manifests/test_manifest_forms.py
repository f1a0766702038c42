"""Manifests that people really have: what they say of files is understood, and meant for the right ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from unstuck.checking.manifests import matched, read
from unstuck.errors import UserError
from unstuck.evidence.data import Listed, Manifest

MD5 = "d41d8cd98f00b204e9800998ecf8427e"
SHA1 = "af99933276403ced2abefbebce601967c8d54258"
SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
MOSAIC = {
    "column_encodings": ["uint16"],
    "column_names": ["input_ids"],
    "column_sizes": [None],
    "compression": None,
    "format": "mds",
    "hashes": ["sha1"],
    "raw_data": {
        "basename": "shard.00000.mds",
        "bytes": 67087046,
        "hashes": {"sha1": SHA1, "xxh64": "7e1f64761196becf"},
    },
    "samples": 2725,
    "size_limit": 67108864,
    "version": 2,
    "zip_data": None,
}
UNDERSTOOD = {
    "wids": (
        {"__kind__": "wids-shard-index-v1", "name": "train", "wids_version": 1,
         "shardlist": [{"url": "a.tar", "nsamples": 10, "name": "train"},
                       {"url": "b.tar", "nsamples": 7, "filesize": 99}]},
        [Listed("a.tar", samples=10), Listed("b.tar", 99, 7)],
    ),
    "wids-with-parts": (
        {"wids_version": 1, "datasets": [{"name": "x", "shardlist": [{"url": "a.tar", "nsamples": 1}]},
                                         {"shardlist": [{"url": "b.tar", "nsamples": 2}]}]},
        [Listed("a.tar", samples=1), Listed("b.tar", samples=2)],
    ),
    "mosaic": ({"shards": [MOSAIC], "version": 2}, [Listed("shard.00000.mds", 67087046, 2725, f"sha1:{SHA1}")]),
    "mosaic-compressed": (
        {"shards": [{**MOSAIC, "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 128, "hashes": {}}}]},
        [Listed("shard.00000.mds.zstd", 128, 2725)],
    ),
    "timm": (
        {"name": "imagenet", "splits": {
            "train": {"name": "train", "num_samples": 30, "filenames": ["a.tar", "b.tar"], "shard_lengths": [10, 20]},
            "val": {"name": "val", "num_samples": 5, "filenames": ["v.tar"], "shard_lengths": [5]}}},
        [Listed("a.tar", samples=10), Listed("b.tar", samples=20), Listed("v.tar", samples=5)],
    ),
    "open_clip-sizes": ({"00000.tar": 1000, "00001.tar": "999"},
                        [Listed("00000.tar", samples=1000), Listed("00001.tar", samples=999)]),
    "litdata": ({"chunks": [{"chunk_bytes": 512, "chunk_size": 10, "dim": None, "filename": "chunk-0-0.bin"}],
                 "config": {"chunk_bytes": 67108864, "data_format": ["bin"]}},
                [Listed("chunk-0-0.bin", samples=10)]),
    "hf-arrow": ({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_fingerprint": "x", "_split": None},
                 [Listed("data-00000-of-00001.arrow")]),
    "safetensors": ({"metadata": {"total_size": 9}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors",
                                                                    "c": "m-1.safetensors"}},
                    [Listed("m-1.safetensors"), Listed("m-2.safetensors")]),
    "by-name": ({"files": {"a.parquet": {"num_rows": 5, "bytes": 7, "sha256": SHA256}}},
                [Listed("a.parquet", 7, 5, f"sha256:{SHA256}")]),
    "crc-as-number": ([{"path": "a.tar", "crc32": 255}], [Listed("a.tar", digest="crc32:000000ff")]),
    "bytes-by-name": ({"shard_bytes": {"a.tar": 10240}}, [Listed("a.tar", 10240)]),
    "checksums-by-name": ({"checksums": {"a.tar": MD5}}, [Listed("a.tar", digest=f"md5:{MD5}")]),
    "pairs": ([["a.tar", 10], ["b.tar", 20]], [Listed("a.tar", samples=10), Listed("b.tar", samples=20)]),
}  # fmt: skip


def written(folder: Path, name: str, content: object) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def said(manifest: Manifest, folder: Path) -> list[Listed]:
    """With paths as seen from the folder."""
    return [
        Listed(str(Path(one.path).relative_to(folder)), one.size, one.samples, one.digest) for one in manifest.files
    ]


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_an_index_of_a_known_kind_is_understood(tmp_path, name):
    document, expected = UNDERSTOOD[name]

    assert said(read(written(tmp_path, "index.json", document)), tmp_path) == expected


def test_of_a_shard_that_is_compressed_only_what_is_stored_is_listed(tmp_path):
    packed = {"basename": "shard.00000.mds.zstd", "bytes": 128, "hashes": {}}
    path = written(tmp_path, "index.json", {"shards": [{**MOSAIC, "zip_data": packed}]})
    for stored in (["shard.00000.mds"], ["shard.00000.mds", "shard.00000.mds.zstd"]):
        for name in stored:
            written(tmp_path, name, "x")

        assert [one.path for one in said(read(path), tmp_path)] == stored


def test_the_total_at_the_top_of_a_manifest_is_kept(tmp_path):
    path = written(tmp_path, "m.json", {"total_samples": 30, "shards": [{"name": "a.tar", "samples": 10}]})

    assert read(path).samples == 30


def test_energons_counts_are_relative_to_the_folder_above_its_own(tmp_path):
    as_json = written(tmp_path, ".nv-meta/.info.json", {"shard_counts": {"shards/000.tar": 12}})
    as_yaml = written(tmp_path, ".nv-meta/.info.yaml", "shard_counts:\n  shards/000.tar: 12\n  shards/001.tar: 14\n")

    assert said(read(as_json), tmp_path) == [Listed("shards/000.tar", samples=12)]
    assert said(read(as_yaml), tmp_path)[1] == Listed("shards/001.tar", samples=14)


def test_a_shard_that_is_named_without_its_ending_is_found_in_the_folder(tmp_path):
    for name in ("00000.tar", "00000.parquet", "00000_stats.json", "00001.tar"):
        written(tmp_path, name, "x")

    lines = '{"shard": "00000", "num_sequences": 8192}\n{"shard": "00001", "num_sequences": 8}\n'
    found = read(written(tmp_path, "manifest.jsonl", lines))

    assert said(found, tmp_path) == [Listed("00000.tar", samples=8192), Listed("00001.tar", samples=8)]


def test_what_sha256sum_prints_is_understood_with_names_that_have_ends_of_lines(tmp_path):
    names = ["a b.tar", "new\nline.tar", "back\\slash.tar"]
    for name in names:
        written(tmp_path, name, "")
    for program, digest in (("sha256sum", f"sha256:{SHA256}"), ("md5sum", f"md5:{MD5}")):
        printed = subprocess.run([program, *names], cwd=tmp_path, capture_output=True, check=True, text=True).stdout

        assert said(read(written(tmp_path, "SUMS", printed)), tmp_path) == [Listed(one, digest=digest) for one in names]


def test_a_list_of_paths_may_have_ranges_commands_comments_and_counts(tmp_path):
    lines = "# train\ns-{00..02}.tar\n\npipe:aws s3 cp s3://bucket/x.tar -\ncounted.tar\t12\n"

    found = read(written(tmp_path, "train.txt", lines)).files

    assert [Path(one.path).name for one in found] == ["s-00.tar", "s-01.tar", "s-02.tar", "x.tar", "counted.tar"]
    assert found[3].path == "s3://bucket/x.tar"
    assert found[4].samples == 12


def test_a_table_with_a_header_is_understood(tmp_path):
    for name, between in (("m.csv", ","), ("m.tsv", "\t")):
        rows = [["Path", "num_samples", "size", "md5"], ["a, b.tar" if between == "\t" else "a.tar", "5", "10240", MD5]]
        found = read(written(tmp_path, name, "\n".join(between.join(one) for one in rows)))

        assert said(found, tmp_path) == [Listed(rows[1][0], 10240, 5, f"md5:{MD5}")]


def test_a_number_that_is_the_size_of_the_file_is_not_taken_for_a_count(tmp_path):
    written(tmp_path, "a.tar", "x" * 10240)

    found = read(written(tmp_path, "m.json", {"a.tar": 10240, "b.tar": 20480}))

    assert said(found, tmp_path) == [Listed("a.tar", 10240), Listed("b.tar", 20480)]


def test_splits_of_which_samples_are_counted_are_not_taken_for_files(tmp_path):
    split = {"name": "train", "num_bytes": 633138181, "num_examples": 250000, "shard_lengths": [125000, 125000]}
    source = {"hf://datasets/x@1/data.zip": {"num_bytes": 9, "checksum": None}}
    info = {"dataset_name": "cifar10", "splits": {"train": split}, "download_checksums": source, "features": {}}

    with pytest.raises(UserError, match="no names of files"):
        read(written(tmp_path, "dataset_info.json", info))


def test_members_of_one_archive_are_not_taken_for_files(tmp_path):
    index = {"files": {"1.jpg": {"offset": 512, "length": 9, "sha256": SHA256}}, "filesize": 10240}

    with pytest.raises(UserError, match="no names of files"):
        read(written(tmp_path, "shard.json", index))


def test_paths_that_lead_nowhere_from_the_manifest_are_tried_from_here_and_beside_it(tmp_path, monkeypatch):
    written(tmp_path, "data/train/a.tar", "x")
    monkeypatch.chdir(tmp_path)
    for listed in ("data/train/a.tar", "/where/it/was/made/a.tar"):
        found = read(written(tmp_path, "data/train/m.json", [{"path": listed, "samples": 1}]))

        assert Path(found.files[0].path).resolve() == tmp_path / "data/train/a.tar"


def test_a_manifest_at_an_address_names_files_at_that_address():
    import fsspec

    with fsspec.open("memory://set/index.json", "w") as file:
        json.dump({"shardlist": [{"url": "a.tar", "nsamples": 1}, {"url": "../b.tar", "nsamples": 2}]}, file)

    assert [one.path for one in read("memory://set/index.json").files] == ["memory://set/a.tar", "memory://b.tar"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no names of files are found"),
        ("hello world\nthis is a text\n", "no names of files are found"),
        ('{"count": 10000, "successes": 8017}', "no names of files are found"),
        ('{"shards": [', "is not understood: Expecting value"),
        (" \t" * 1_000_000 + "x", "no names of files are found"),
        ("pipe:" + "a" * 1_000_000, "no names of files are found"),
        ("[" * 100_000, "is nested too deeply"),
        ("\x1f\x8b\x08" + "x" * 20, "is compressed with gzip"),
        ("a\0b", "is no text"),
    ],
)
def test_a_manifest_that_says_nothing_is_refused_in_one_line(tmp_path, content, words):
    path = tmp_path / "m.json"
    path.write_bytes(content.encode("latin-1"))

    with pytest.raises(UserError) as raised:
        read(str(path))

    assert words in raised.value.what
    assert "\n" not in str(raised.value)


def test_a_manifest_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot be read: No such file or directory"):
        read(str(tmp_path / "none.json"))


def test_files_are_matched_by_path_before_anything_else(tmp_path):
    manifest = Manifest("m", [Listed("train/0.tar", samples=1), Listed("val/0.tar", samples=2)])

    found = matched(manifest, ["./train/0.tar", "val/0.tar", "test/0.tar"])

    assert {path: one.samples for path, one in found.items()} == {"./train/0.tar": 1, "val/0.tar": 2}


def test_moved_files_are_matched_by_the_end_of_the_path_by_name_or_by_stem():
    made = Manifest("m", [Listed("/made/train/0.tar", samples=1), Listed("/made/val/0.tar", samples=2)])
    bare = Manifest("m", [Listed("/made/00000", samples=3)])

    assert [one.samples for one in matched(made, ["/here/train/0.tar", "/here/val/0.tar"]).values()] == [1, 2]
    assert matched(made, ["/here/0.tar"]) == {}  # either of them
    assert matched(bare, ["/here/00000.tar.gz"])["/here/00000.tar.gz"].samples == 3


def test_a_file_that_is_gone_and_one_that_was_added_are_not_taken_for_each_other():
    manifest = Manifest("m", [Listed("train/0.tar", samples=1), Listed("train/1.tar", samples=2)])

    assert list(matched(manifest, ["train/0.tar", "val/1.tar"])) == ["train/0.tar"]
