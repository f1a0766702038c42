"""Rules about data files that a recorded run had trouble with: what is the reason, what a consequence."""

from __future__ import annotations

import msgspec
import pytest
from test_data_rules import CUT, NO_END, file, found, names, shards

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence
from unstuck.evidence.data import Asked, Data, Fault, Group
from unstuck.evidence.process import Process
from unstuck.rules.engine import judge

DAMAGE = {
    "tar-cut-data": "tar-truncated-loud",
    "tar-bad-header": "tar-truncated-silent",
    "undecodable": "undecodable-sample",
    "zeros": "zeroed-blocks",
    "cut": "file-truncated",
    "damaged": "file-damaged",
    "empty": "empty-file",
    "foreign": "not-the-data",
    "unreadable": "file-unreadable",
    "image": "corrupt-image-sample",
    "tar-apart": "tar-keys-not-adjacent",
}

DAMAGE_THAT_MAY_BE_QUIET = ("empty-file", "duplicate-keys", "zeroed-blocks")


def run_that_failed_over(path: str, *faults: Fault) -> Evidence:
    """A worker raised with this file in hand."""
    run = evidence_of("worker-python-exception", "found")

    def with_path(one: Process) -> Process:
        failures = [msgspec.structs.replace(each, paths=[path]) for each in one.failures]
        return msgspec.structs.replace(one, failures=failures) if one.role == "worker" else one

    data = Data(Asked([path]), [file("/data/a.tar", *faults)], of_run=True)
    return msgspec.structs.replace(run, data=data, recording=[with_path(one) for one in run.recording or ()])


@pytest.mark.parametrize(("kind", "rule"), sorted(DAMAGE.items()))
def test_damage_of_a_file_that_a_run_had_trouble_with_is_the_reason_of_its_exception(kind, rule):
    findings = found(run_that_failed_over("/data/a.tar", Fault(kind, "it is bad", at=1)))

    assert [one.rule for one in findings if one.role == "root"] == [rule]
    assert {one.because_of for one in findings if one.role != "root"} <= {rule, "worker-python-exception"}


@pytest.mark.parametrize(("kind", "rule"), sorted(DAMAGE.items()))
def test_an_exception_that_was_about_something_else_keeps_its_own_reason(kind, rule):
    findings = found(run_that_failed_over("/data/another.tar", Fault(kind, "it is bad", at=1)))

    assert [one.rule for one in findings if one.role == "root"] == ["worker-python-exception"]


def test_the_finding_quotes_the_exception_of_the_worker_over_the_file():
    findings = found(run_that_failed_over("/data/a.tar", CUT))

    said = {one.rule: one.saw for one in findings}["tar-truncated-loud"]
    assert said == "ValueError: buffer size must be a multiple of element size"


@pytest.mark.parametrize(
    ("kind", "member", "format_", "symptom"),
    [
        ("empty", "", "parquet", "crashed"),
        ("empty", "", "jsonl", "wrong"),
        ("tar-duplicate", "a.txt", "tar", "crashed"),
        ("tar-duplicate", "", "tar", "wrong"),
        ("zeros", "", "jsonl", "crashed"),
        ("zeros", "7.jpg", "tar", "wrong"),
    ],
)
def test_what_makes_a_reader_raise_is_a_crash_and_what_does_not_is_wrong(kind, member, format_, symptom):
    run = run_that_failed_over("/data/a.tar", Fault(kind, "it is bad", at=1, member=member))
    bad = msgspec.structs.replace(run.data.files[0], format=format_) if run.data else None
    data = Data(Asked([]), [bad], of_run=True)

    judged = judge(Case(msgspec.structs.replace(run, data=data)))

    assert {one.symptom for each in judged for one in each.findings if one.rule in DAMAGE_THAT_MAY_BE_QUIET} == {
        symptom
    }


def test_a_shard_of_a_run_without_an_end_mark_says_nothing_unless_another_has_one():
    alone = run_that_failed_over("/data/a.tar", NO_END)
    beside = Data(Asked([]), [*(alone.data.files if alone.data else []), file("/data/b.tar")], of_run=True)

    assert "tar-truncated-silent" not in names(alone)
    assert "tar-truncated-silent" in names(msgspec.structs.replace(alone, data=beside))


def test_what_a_handler_lost_of_a_shard_is_told_first_and_the_damage_as_its_detail():
    run = evidence_of("handler-drops-shard-rest", "found")
    data = Data(Asked([]), [file("/data/a.tar", CUT)], of_run=True)

    findings = found(msgspec.structs.replace(run, data=data))

    assert (findings[0].rule, findings[0].symptom) == ("handler-drops-shard-rest", "wrong")
    assert {one.rule: one.because_of for one in findings}["tar-truncated-loud"] == "handler-drops-shard-rest"


def test_an_image_that_ended_a_run_is_one_finding_with_what_reading_its_file_showed():
    run = evidence_of("corrupt-image-sample", "found")
    (told,) = [one for one in found(run) if one.rule == "corrupt-image-sample"]
    path = told.subject.name if told.subject is not None else ""
    fault = Fault("cut", "it is truncated: it has no end marker", at=700)

    findings = found(msgspec.structs.replace(run, data=Data(Asked([]), [file(path, fault)], of_run=True)))

    roots = [one for one in findings if one.role == "root"]
    assert [one.rule for one in roots] == ["corrupt-image-sample"]
    assert roots[0].seen[-1] == "in the file, byte 700: it is truncated: it has no end marker"


def test_files_of_a_run_are_not_compared_with_each_other():
    run = evidence_of("worker-python-exception", "found")
    groups = [Group(["jpg", "txt"], 95, "a", 0), Group(["jpg"], 5, "b", 512)]
    files = [*shards(24), file("d/s-030.tar", samples=1, groups=groups)]
    files[3:5] = []

    findings = found(msgspec.structs.replace(run, data=Data(Asked([]), files, of_run=True)))

    assert [one.rule for one in findings] == [one.rule for one in found(run)]


def out_of_room(path: str, saving: str) -> Evidence:
    """A checkpoint could not be written to its end, and a file is cut off."""
    run = evidence_of("checkpoint-disk-full", "found")
    (main,) = Case(run).mains
    failures = [msgspec.structs.replace(one, paths=[saving, path]) for one in main.failures]
    saved = [msgspec.structs.replace(one, path=saving) if one.failed else one for one in main.saved]
    data = Data(Asked([path]), [file(path, Fault("cut", "its directory is missing", at=1))], of_run=True)
    one = msgspec.structs.replace(main, failures=failures, saved=saved)
    return msgspec.structs.replace(run, data=data, recording=[one])


def test_half_a_checkpoint_is_what_a_full_disk_leaves_and_no_file_to_fetch_again():
    report = report_on(out_of_room("/disk/epoch-3.pt", "/disk/epoch-3.pt"))

    assert (report.findings[0].rule, report.findings[0].role) == ("checkpoint-disk-full", "root")
    assert {one.rule: one.because_of for one in report.findings}["file-truncated"] == "checkpoint-disk-full"
    assert [one.role for one in report.findings].count("root") == 1


def test_a_cut_file_that_was_not_being_written_is_a_cause_of_its_own_beside_a_full_disk():
    report = report_on(out_of_room("/data/a.npz", "/disk/epoch-3.pt"))

    assert {one.rule for one in report.findings if one.role == "root"} == {"checkpoint-disk-full", "file-truncated"}


def test_numpy_which_wrote_less_than_it_was_given_had_no_room():
    run = evidence_of("uncaught-exception", "found")
    (main,) = Case(run).mains
    said = {"type": "OSError", "message": "1920000 requested and 528352 written", "index": None, "paths": ["/d/a.npy"]}
    failure = msgspec.structs.replace(main.failures[-1], **said)
    one = msgspec.structs.replace(main, failures=[failure])
    (first, *_) = report_on(msgspec.structs.replace(run, recording=[one])).findings

    assert (first.rule, first.certainty) == ("checkpoint-disk-full", "likely")
