"""Rules that compare files of one series: gaps, sizes, columns, the manifest, shards for ranks and workers."""

from __future__ import annotations

import time

import pytest
from test_data_rules import BEHIND, CUT, checked, file, found, names, shards

from unstuck.evidence.data import Asked, DataFile, Fault, Folder, Listed, Manifest, Texts


def series(*samples: int) -> list[DataFile]:
    """Shards with so many samples each, none a copy of another."""
    return [file(f"d/s-{i:03d}.tar", samples=n, size=n * 1000, alike=f"{i}") for i, n in enumerate(samples)]


def table(path: str, **columns: str) -> DataFile:
    return file(path, format="parquet", columns=columns)


def without(files: list[DataFile], *numbers: int) -> list[DataFile]:
    return [one for i, one in enumerate(files) if i not in numbers]


def test_a_gap_in_a_series_is_told_with_the_names_of_what_is_missing():
    (finding,) = found(checked(*without(shards(24), 7, 8)))

    assert finding.rule == "shard-missing"
    assert finding.cause.startswith("s-007.tar and 1 other file are missing from a series of 24 files")
    assert finding.seen == [
        "22 files from d/s-000.tar to s-023.tar",
        "missing: d/s-007.tar",
        "missing: d/s-008.tar",
    ]


@pytest.mark.parametrize(
    "files",
    [
        without(shards(24), 3, 7, 8),  # more than a tenth: left out on purpose
        without(shards(9), 4),
        [*shards(8), file("d/s-1822.tar", alike="x")],  # the first of many, and the last
        [*without(shards(24), 5), file("val/s-005.tar", alike="5")],  # in another split
        [file(f"d/{day}.tar", alike=f"{day}") for day in (20240101, 20240108, 20240115, 20991231)],
        [file("d/a-0.tar", alike="0"), file(f"d/a-{10**30}.tar", alike="1")],
        without([file(f"d/img-{i:03d}.jpg", format="image", samples=1) for i in range(40)], 7),  # one sample each
    ],
)
def test_numbers_that_leave_out_many_or_count_something_else_are_no_gap(files):
    assert names(checked(*files)) == []


def parts(*numbers: int, of: int = 20) -> list[DataFile]:
    return [file(f"d/part-{i:05d}-of-{of:05d}.parquet", format="parquet") for i in numbers]


def test_names_that_say_how_many_there_are_show_what_is_missing_at_the_end():
    (finding,) = found(checked(*parts(*range(18))))

    assert "missing: d/part-00019-of-00020.parquet" in finding.seen
    assert names(checked(*parts(0, 1, 2))) == ["shard-missing"]  # the whole folder was asked for
    assert names(checked(*parts(0, 1, 2), asked=Asked(["d/part-0000[0-2]*.parquet"]))) == []
    assert names(checked(*parts(*range(1, 21)))) == []  # counted from 1


def test_names_with_something_made_up_in_them_are_a_series_all_the_same():
    hub = [file(f"d/train-{i:05d}-of-00020-{i + 2:x}a3f5c7e91b2d4f6.parquet", format="parquet") for i in range(19)]

    (finding,) = found(checked(*hub))
    assert finding.seen[-1] == "missing: d/train-00019-of-00020-*.parquet"


def test_a_check_that_was_interrupted_misses_nothing():
    manifest = Manifest("d/m.json", [Listed(f"d/s-{i:03d}.tar", samples=50) for i in range(24)], samples=1200)
    asked = Asked(["d"], ranks=8, workers=8)

    assert names(checked(*without(shards(24), 7), manifest=manifest, asked=asked, stopped="it was interrupted")) == []


def test_what_was_named_and_is_not_there_is_told():
    (finding,) = found(checked(*shards(3), absent=["e/x-1.tar", "e/x-2.tar"], asked=Asked(["d", "e/x-{1..2}.tar"])))

    assert (finding.rule, finding.symptom) == ("shard-missing", "bad data")
    assert finding.cause.startswith("x-1.tar and 1 other file do not exist: training that names them raises")
    assert finding.seen[-1] == "3 files of what was asked for exist"


@pytest.mark.parametrize(
    ("samples", "odd"),
    [
        ([100] * 9 + [40] + [100] * 3, "s-009.tar"),
        ([100] * 9 + [400] + [100] * 3, "s-009.tar"),
        ([90, 110, 95, 105, 100, 98, 20, 103, 99, 101], "s-006.tar"),
        ([100] * 12 + [3], ""),  # the last may be shorter
        ([100] * 9 + [80] + [100] * 3, ""),  # not far enough
        ([100] * 9 + [40, 40] + [100] * 3, ""),  # two of fourteen: that is how they were written
        ([10, 300, 40, 90, 700, 25, 2, 120, 60, 15, 50], ""),  # they vary as it is
        ([100] * 3 + [10] + [100] * 3, ""),  # too few to tell
    ],
)
def test_a_shard_far_from_its_siblings_is_told(samples, odd):
    findings = found(checked(*series(*samples)))

    assert [one.rule for one in findings] == (["shard-size-outlier"] if odd else [])
    assert not odd or odd in findings[0].cause


def test_a_shard_whose_damage_or_manifest_explains_its_size_is_no_outlier():
    files = series(*[100] * 12)
    small = series(*[100] * 5, 10)[5]

    assert names(checked(*files[:5], small, *files[6:])) == ["shard-size-outlier"]
    cut = file("d/s-005.tar", CUT, samples=10)
    assert names(checked(*files[:5], cut, *files[6:])) == ["tar-truncated-loud"]
    manifest = Manifest("m.json", [Listed(one.path, samples=one.samples) for one in [*files[:5], small, *files[6:]]])
    assert names(checked(*files[:5], small, *files[6:], manifest=manifest)) == []


def test_tables_are_compared_by_their_rows_for_bytes_depend_on_compression():
    files = [file(f"d/p-{i}.parquet", format="parquet", size=900 if i == 4 else 90_000) for i in range(12)]

    assert names(checked(*files)) == []
    unread = [file(f"d/p-{i}.jsonl", format="jsonl", samples=None, size=900 if i == 4 else 90_000) for i in range(12)]
    assert names(checked(*unread)) == ["shard-size-outlier"]


def test_the_odd_ones_out_are_told_with_what_differs():
    files = [table(f"d/p-{i}.parquet", text="string", label="int64") for i in range(5)]
    odd = table("d/p-5.parquet", text="string", label="string", extra="double")

    (finding,) = found(checked(*files, odd))

    assert finding.rule == "schemas-differ"
    assert finding.cause == "p-5.parquet has other columns: `extra` is extra, `label` is string, not integer."
    assert finding.subject is not None
    assert finding.subject.name == "d/p-5.parquet"


@pytest.mark.parametrize(
    "odd",
    [
        {"text": "large_string", "label": "int32", "tags": "large_list<item: string>"},
        {
            "text": "dictionary<values=string, indices=int32, ordered=0>",
            "label": "uint8",
            "tags": "list<element: string>",
        },
        {"tags": "null", "label": "int64", "text": "string_view"},
        {"bird": "string", "weight": "double"},  # another table
    ],
)
def test_types_that_libraries_convert_and_other_tables_are_not_told(odd):
    usual = {"text": "string", "label": "int64", "tags": "list<item: string>"}
    files = [table(f"d/p-{i}.parquet", **usual) for i in range(5)]

    assert names(checked(*files, table("d/p-5.parquet", **odd))) == []


def lines(number: int, **documents: int) -> DataFile:
    texts = [Texts(column, count, characters=count * 2000) for column, count in documents.items()]
    return file(f"d/l-{number}.jsonl", format="jsonl", samples=100, texts=texts, columns={"anything": "null"})


def test_of_json_lines_only_a_text_that_every_record_has_is_missed():
    usual = [lines(i, text=100, title=100) for i in range(5)]

    assert names(checked(*usual, lines(5, text=100, title=40))) == []
    assert names(checked(*usual, lines(5, text=100, title=100, more=100))) == []
    (finding,) = found(checked(*usual, lines(5, content=100, title=100)))
    assert (finding.rule, "has other columns: `text` is missing." in finding.cause) == ("schemas-differ", True)


def test_a_manifest_is_compared_in_samples_then_content_then_size():
    entry = Listed("s-000.tar", size=1, samples=50)

    (finding,) = found(checked(file("d/s-000.tar"), manifest=Manifest("d/m.json", [entry])))
    assert finding.cause == "s-000.tar does not match m.json: it has 9,000 bytes instead of 1."
    altered = file("d/s-000.tar", Fault("manifest", "a.jpg differs from the manifest", at=512, lost=1))
    (finding,) = found(checked(altered, manifest=Manifest("d/m.json", [entry])))
    assert finding.cause == "s-000.tar does not match m.json: it was altered."
    assert finding.seen == ["d/s-000.tar was altered: byte 512: a.jpg differs from the manifest"]


def test_a_total_is_compared_where_all_that_is_listed_was_read():
    entries = [Listed(f"d/s-{i:03d}.tar") for i in range(4)]

    (finding,) = found(checked(*shards(4), manifest=Manifest("d/m.json", entries, samples=210)))
    assert finding.cause == "m.json counts 210 samples, but its files have 200."
    assert names(checked(*shards(4), manifest=Manifest("d/m.json", entries, samples=200))) == []
    few = checked(*shards(3), manifest=Manifest("d/m.json", entries, samples=210), asked=Asked(["d/s-00[0-2].tar"]))
    assert names(few) == []


def test_what_a_manifest_lists_is_missed_where_its_folder_was_asked_for():
    manifest = Manifest("d/m.json", [Listed(f"d/s-{i:03d}.tar", samples=50) for i in range(4)])

    (finding,) = found(checked(*shards(3), manifest=manifest))
    assert (finding.rule, finding.symptom) == ("manifest-disagrees", "bad data")
    assert finding.cause == "s-003.tar does not match m.json: it is missing."
    assert names(checked(*shards(3), manifest=manifest, asked=Asked(["d/s-00[0-2].tar"]))) == []
    (finding,) = found(checked(*shards(3), manifest=manifest, asked=Asked(["d/m.json"]), absent=["d/s-003.tar"]))
    assert finding.rule == "manifest-disagrees"


def test_files_of_one_sample_that_are_only_summed_up_are_not_missed():
    manifest = Manifest("d/sums", [Listed(f"d/{i}.jpg") for i in range(4)] + [Listed("d/a.tar")])

    assert names(checked(file("d/a.tar"), folders=[Folder("d", "image", 4, 999)], manifest=manifest)) == []


@pytest.mark.parametrize(
    ("paths", "asked", "expected"),
    [
        (["d/0.tar", "d/1.tar"], {"ranks": 2, "workers": 2}, ["wds-fewer-shards-than-workers"]),
        (["d/0.tar", "d/1.tar"], {"workers": 2}, []),
        (["d/0.tar", "d/1.tar"], {}, []),
        (["train/0.tar", "train/1.tar", "val/0.tar", "val/1.tar"], {"workers": 3}, ["wds-fewer-shards-than-workers"]),
        (["train/0.tar", "train/1.tar", "train/2.tar", "val/0.tar"], {"workers": 3}, []),
        (["test/x/0.tar", "test/x/1.tar", "test/x/2.tar"], {"workers": 3}, []),
        (["a/0.jsonl", "b/0.jsonl"], {"ranks": 2}, []),
        (["a/0.tar", "a/1.tar", "a/2.tar", "a/0.parquet"], {"ranks": 3}, []),  # a table about the archives
        (["a/0.jsonl", "b/0.jsonl"], {"ranks": 3}, ["workers-without-shards"]),
    ],
)
def test_shards_are_counted_against_ranks_and_workers(paths, asked, expected):
    files = [file(path, format=path.rpartition(".")[2], alike=path) for path in paths]

    assert names(checked(*files, asked=Asked(["."], **asked))) == expected


def test_row_groups_are_counted_against_ranks_by_the_file_that_has_most():
    files = [file(f"d/p-{i}.parquet", format="parquet", row_groups=i % 4, samples=400) for i in range(9)]

    (finding,) = found(checked(*files, asked=Asked(["d"], ranks=8)))
    assert finding.rule == "rank-without-row-groups"
    assert "Files have at most 3 row groups for 8 ranks" in finding.cause
    assert "ranks 3 to 7 get nothing" in finding.cause
    assert "row_group_size=50" in finding.remedy.code[0]
    assert names(checked(*files, asked=Asked(["d"], ranks=3))) == []
    assert names(checked(*files)) == []


@pytest.mark.scenario
def test_twenty_thousand_files_are_judged_within_seconds():
    files = [file(f"d/s-{i:06d}.tar", *([BEHIND] if i % 100 == 0 else []), alike=f"{i}") for i in range(20_000)]
    manifest = Manifest("d/m.json", [Listed(one.path, samples=50) for one in files])
    evidence = checked(*files, manifest=manifest, asked=Asked(["d"], ranks=8, workers=8))

    began = time.process_time()
    findings = found(evidence)

    assert time.process_time() - began < 15
    assert [one.rule for one in findings] == ["tar-truncated-silent"]
