"""Rules about damaged data files: which fault is told, what it costs, and what is left to a stronger one."""

from __future__ import annotations

import msgspec
import pytest

from unstuck.analysis.case import Case
from unstuck.evidence import Evidence, Run
from unstuck.evidence.data import Asked, Data, DataFile, Fault, Group, Listed, Manifest
from unstuck.evidence.finding import Finding
from unstuck.rules.engine import judge, rank_findings

CUT = Fault("tar-cut-data", "the file ends inside 26.jpg", at=9000, member="26.jpg", sample="26")
BEHIND = Fault("tar-early-end", "zeros at byte 4,096", at=4096, lost=24)
NO_END = Fault("tar-no-end", "no end mark", at=9000)
IMAGE = Fault("image", "7.jpg cannot be decoded", at=2048, member="7.jpg", sample="7", lost=1)
ZEROS = Fault("zeros", "7.jpg has zeros", at=2100, member="7.jpg", sample="7", lost=1)


def file(path: str, *faults: Fault, **facts: object) -> DataFile:
    known: dict[str, object] = {"format": "tar", "size": 9000, "samples": 50, "members": 100}
    counts = {kind: sum(one.kind == kind for one in faults) for kind in {one.kind for one in faults}}
    return DataFile(path, faults=list(faults), **{"counts": counts, **known, **facts})


def checked(*files: DataFile, **more: object) -> Evidence:
    facts: dict[str, object] = {"asked": Asked(["d"]), **more}
    return Evidence(run=Run("check"), data=Data(files=list(files), **facts))


def found(evidence: Evidence) -> list[Finding]:
    judgements = judge(Case(evidence))
    assert [one for one in judgements if one.verdict == "broken"] == []
    return rank_findings(judgements)


def names(evidence: Evidence) -> list[str]:
    return sorted(one.rule for one in found(evidence))


def shards(count: int, samples: int = 50) -> list[DataFile]:
    return [file(f"d/s-{number:03d}.tar", samples=samples, alike=f"{number}") for number in range(count)]


@pytest.mark.parametrize(
    ("siblings", "told"),
    [
        ([], True),  # it stands alone
        ([()], True),  # the other one has an end mark
        ([(NO_END,)], False),  # neither has: their writer leaves it out
        ([(), (), (NO_END,)], True),
        ([(NO_END,), (NO_END,), ()], False),
    ],
)
def test_an_archive_without_an_end_mark_is_told_where_others_have_one(siblings, told):
    files = [file("d/a.tar", NO_END), *(file(f"d/b{i}.tar", *faults) for i, faults in enumerate(siblings))]

    causes = [one.cause for one in found(checked(*files)) if one.rule == "tar-truncated-silent"]

    assert any("a.tar" in cause for cause in causes) == told


def test_archives_of_another_folder_do_not_say_whether_an_end_mark_is_usual():
    assert names(checked(file("d/a.tar", NO_END), file("e/b.tar", NO_END))) == ["tar-truncated-silent"]


def test_what_stands_behind_the_place_is_counted_as_lost():
    (finding,) = found(checked(file("d/a.tar", BEHIND, samples=26)))

    assert finding.symptom == "bad data"
    assert finding.cause == "a.tar is silently cut off by zeros at byte 4,096: 24 of 50 samples are never read."
    assert finding.alternatives[0].code == ["archive = tarfile.open('d/a.tar', ignore_zeros=True)"]


def test_what_a_cut_costs_is_taken_from_the_manifest():
    manifest = Manifest("d/manifest.json", [Listed("d/s-001.tar", samples=40)])
    files = [*shards(6)[2:], file("d/s-001.tar", CUT, samples=11)]

    (finding,) = found(checked(*files, manifest=manifest))

    assert finding.cause.endswith(": 30 of 40 samples are lost.")
    assert finding.seen[-1] == "number of samples lost: from the manifest"


def test_what_a_cut_costs_is_taken_from_siblings_that_are_all_alike():
    (finding,) = found(checked(*shards(6)[2:], file("d/s-001.tar", CUT, samples=11)))

    assert finding.cause.endswith(": about 40 of 50 samples are lost.")
    assert finding.seen[-1] == "number of samples lost: estimated from the other shards"


def test_siblings_that_vary_make_it_an_estimate():
    others = [file(f"d/s-{number:03d}.tar", samples=40 + number, alike=f"{number}") for number in range(2, 9)]

    (finding,) = found(checked(*others, file("d/s-001.tar", CUT, samples=11)))

    assert finding.cause.endswith(": about 35 of 45 samples are lost.")
    assert finding.seen[-1] == "number of samples lost: estimated from the median of the other shards"


def test_the_last_of_a_series_may_have_been_shorter_so_nothing_is_estimated():
    (finding,) = found(checked(*shards(6), file("d/s-006.tar", CUT, samples=11)))

    assert finding.cause.endswith(": what followed is lost, too.")


def test_several_bad_files_are_one_finding_that_names_the_worst():
    files = [
        file(f"d/x{number}.tar", msgspec.structs.replace(BEHIND, lost=number), samples=9) for number in range(1, 31)
    ]

    (finding,) = found(checked(*files))

    assert finding.cause == "x30.tar and 29 other archives are silently truncated: 465 samples are never read."
    assert finding.subject is not None
    assert finding.subject.name == "d/x30.tar"
    assert len(finding.seen) == 7
    assert finding.seen[4] == "the same in 26 more files: x26.tar, x25.tar, x24.tar, x23.tar, …"
    assert finding.seen[-1] == "samples lost: 465 of 735"


def test_a_file_with_more_faults_than_are_kept_says_how_many_there_are():
    many = file("d/a.tar", IMAGE, counts={"image": 4000})

    (finding,) = found(checked(many))

    assert "7.jpg in a.tar and 3,999 other images cannot be decoded" in finding.cause
    assert finding.seen[-1] == "and 3,999 more places like this in it"


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ((ZEROS, IMAGE), ["zeroed-blocks"]),  # the same member: one reason
        ((ZEROS, msgspec.structs.replace(IMAGE, member="9.jpg")), ["corrupt-image-sample", "zeroed-blocks"]),
        ((BEHIND, msgspec.structs.replace(IMAGE, at=8000)), ["tar-truncated-silent"]),  # behind the damaged place
        ((BEHIND, IMAGE), ["corrupt-image-sample", "tar-truncated-silent"]),  # in front of it
        ((Fault("cut", "its gzip ends early"), CUT), ["file-truncated"]),
        ((Fault("damaged", "a checksum", at=10), Fault("undecodable", "line 9", at=700)), ["file-damaged"]),
        ((Fault("hostile", "x leads outside", at=10, member="x"), IMAGE), ["corrupt-image-sample", "hostile-file"]),
    ],
)
def test_of_several_faults_of_one_file_those_are_told_that_nothing_explains(faults, expected):
    assert names(checked(file("d/a.tar", *faults))) == expected


def test_a_manifest_that_disagrees_about_another_file_stays_a_root():
    manifest = Manifest("d/m.json", [Listed(f"d/s-{number:03d}.tar", samples=50) for number in range(6)])
    files = shards(6)
    files[1] = file("d/s-001.tar", BEHIND, samples=26)

    assert names(checked(*files, manifest=manifest)) == ["tar-truncated-silent"]

    files[4] = file("d/s-004.tar", samples=48)
    roots = [one for one in found(checked(*files, manifest=manifest)) if one.role == "root"]
    assert [one.rule for one in roots] == ["manifest-disagrees", "tar-truncated-silent"]
    assert roots[0].cause == "s-004.tar does not match m.json: it has 48 samples instead of 50."


def test_an_empty_file_that_is_no_data_by_its_name_is_nothing():
    empty = Fault("empty", "the file is empty (0 bytes)")

    assert names(checked(file("d/_SUCCESS", empty, format="", samples=None, size=0), *shards(3))) == []
    (finding,) = found(checked(file("d/a.parquet", empty, format="parquet", samples=None, size=0)))
    assert (finding.rule, finding.symptom) == ("empty-file", "bad data")
    assert finding.cause == "a.parquet is empty (0 bytes): reading raises an error."
    (finding,) = found(checked(file("d/a.jsonl", empty, format="jsonl", samples=None, size=0)))
    assert (finding.rule, finding.symptom) == ("empty-file", "bad data")
    assert finding.cause == "a.jsonl is empty (0 bytes): training silently gets nothing from there."


def test_the_same_part_twice_in_a_row_is_an_error_of_webdataset_and_a_key_that_comes_back_is_not():
    row = Fault("tar-duplicate", "a has .txt twice", at=1, member="a.txt", sample="a", lost=1)

    (finding,) = found(checked(file("d/a.tar", row)))
    assert finding.symptom == "bad data"
    assert finding.cause == "a.tar repeats a file name within one sample (first: a): webdataset raises ValueError."
    (finding,) = found(checked(file("d/a.tar", msgspec.structs.replace(row, member=""))))
    assert finding.symptom == "bad data"
    assert finding.cause == "a.tar contains the key a twice: that sample is trained on twice."


def test_a_shard_under_two_names_is_told_and_content_that_is_the_same_everywhere_is_not():
    keys = [Group(["bin", "txt"], 50, "000", 0)]
    alike = [file(f"d/s-{number}.tar", alike="same", groups=keys) for number in range(8)]
    others = [file(f"d/s-{number}.tar", alike=f"{number}", groups=keys) for number in range(8)]

    assert names(checked(*alike)) == []
    (finding,) = found(checked(*others, file("d/copy.tar", alike="3", groups=keys)))
    assert finding.rule == "duplicate-keys"
    assert finding.cause == "copy.tar is a copy of s-3.tar: 50 samples are in the data twice."
    (finding,) = found(checked(*others, file("val/s-3.tar", alike="3", groups=keys)))
    assert finding.cause == "val/s-3.tar is a copy of d/s-3.tar: 50 samples are in the data twice."
    named = file("d/copy.tar", alike="3", groups=[Group(["bin", "txt"], 50, "999", 0)])
    assert names(checked(*others, named)) == []


@pytest.mark.parametrize(("have", "told"), [(89, False), (90, True), (99, True), (100, False)])
def test_a_part_that_nine_samples_of_ten_have_is_missing_in_the_others(have, told):
    groups = [Group(["jpg", "txt"], have, "a", 0), *([Group(["jpg"], 100 - have, "b", 512)] if have < 100 else [])]

    findings = found(checked(file("d/a.tar", groups=groups, samples=100)))

    assert [one.rule for one in findings] == (["sample-parts-missing"] if told else [])


def test_parts_are_compared_over_all_archives_of_a_series_and_damaged_ones_do_not_count():
    whole = [file(f"d/{number}.tar", groups=[Group(["jpg", "txt"], 50, "a", 0)]) for number in range(4)]
    lacking = [Group(["jpg", "txt"], 48, "a", 0), Group(["jpg"], 2, "b", 512)]

    (finding,) = found(checked(*whole, file("d/5.tar", groups=lacking)))
    assert finding.cause == "2 of 250 samples in d have no .txt: code that asks for it raises."
    assert finding.seen == [
        "d/5.tar: 2 samples with only .jpg (first: b, at byte 512)",
        "the other 248 samples have it",
    ]
    assert names(checked(*whole, file("d/5.tar", CUT, groups=lacking))) == ["tar-truncated-loud"]
    assert names(checked(*whole, file("d/other.tar", groups=[Group(["mp3"], 5, "x", 0)]))) == []


def test_names_that_hold_control_characters_are_shown_and_pasted_without_doing_anything():
    evil = "d/\x1b[31m\nrm -rf.tar"

    (finding,) = found(checked(file(evil, BEHIND)))

    remedies = [finding.remedy, *finding.alternatives]
    lines = [finding.cause, *finding.seen, *(line for one in remedies for line in (one.text, *one.commands, *one.code))]
    assert all(line.isprintable() for line in lines)
    assert "unstuck check $'d/\\x1b[31m\\x0arm -rf.tar'" in finding.remedy.commands


def test_paths_in_commands_are_quoted():
    (finding,) = found(checked(file("d/a b's.tar", BEHIND), asked=Asked(["d/{0..9} x.tar"])))

    assert [command for one in (finding.remedy, *finding.alternatives) for command in one.commands] == [
        "unstuck check 'd/a b'\"'\"'s.tar'",
        "unstuck check 'd/{0..9} x.tar' --quarantine bad-samples.txt",
    ]
