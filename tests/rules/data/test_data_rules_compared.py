"""Rules that compare a file with its siblings or with a manifest that was written elsewhere."""

from __future__ import annotations

from test_data_rules import IMAGE, checked, file, found, names, shards

from unstuck.analysis.case import Case
from unstuck.analysis.data_files import bad, losses
from unstuck.evidence.data import Asked, Group, Listed, Manifest


def test_what_a_manifest_lists_is_missed_also_where_the_data_was_moved():
    listed = [Listed(f"/old/place/s-{number:03d}.tar", samples=50) for number in range(4)]

    (finding,) = found(checked(*shards(3), manifest=Manifest("/old/place/m.jsonl", listed)))

    assert finding.rule == "manifest-disagrees"
    assert finding.cause == "s-003.tar does not match m.jsonl: it is missing."


def test_a_part_of_what_a_manifest_lists_can_be_checked_alone():
    listed = [Listed(f"/old/place/s-{number:03d}.tar", samples=50) for number in range(4)]
    asked = Asked(["d/s-000.tar", "d/s-001.tar"])

    assert names(checked(*shards(2), manifest=Manifest("/old/place/m.jsonl", listed), asked=asked)) == []


def tails(*zeros: int):
    return [file(f"d/s-{number:03d}.tar", size=900_000, tail=tail) for number, tail in enumerate(zeros)]


def test_an_archive_that_ends_with_far_more_zeros_than_its_siblings_has_lost_its_end():
    (finding,) = found(checked(*tails(5120, 9216, 109_568, 1024, 7168)))

    assert finding.rule == "tar-truncated-silent"
    assert finding.cause.startswith("s-002.tar is silently cut off by zeros at byte 790,432: ")


def test_zeros_at_the_end_are_padding_where_all_have_them():
    assert names(checked(*tails(105_120, 92_160, 409_568, 1024, 107_168))) == []
    assert names(checked(*tails(109_568))) == []
    assert names(checked(*tails(5120, 9216, 20_992, 1024, 7168))) == []  # a writer that fills up one record more


def test_a_sample_that_is_bad_is_one_of_those_that_are_there():
    evidence = checked(file("d/a.tar", IMAGE, samples=10))

    (loss,) = losses(Case(evidence), bad(Case(evidence), "image"))

    assert (loss.lost, loss.of) == (1, 10)


def test_row_groups_that_are_enough_for_all_are_not_missed():
    table = file("d/a.parquet", format="parquet", row_groups=40, samples=4000, members=None)

    assert names(checked(table, asked=Asked(["d"], ranks=8))) == []


def test_every_series_with_missing_parts_is_told():
    groups = [Group(["jpg", "txt"], 45, "0", 0), Group(["jpg"], 5, "7", 4096)]
    files = [file(f"d/{split}/s-0.tar", groups=groups, alike=split) for split in ("train", "val")]

    causes = [one.cause for one in found(checked(*files))]

    assert len(causes) == 2
    assert {"d/train", "d/val"} == {cause.split(" in ")[1].split(" have no .txt")[0] for cause in causes}
