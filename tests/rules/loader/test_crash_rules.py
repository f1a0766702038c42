"""Rules about crashes on evidence that differs from what was captured in one thing: where they must be silent."""

from __future__ import annotations

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Exit, Run
from unstuck.evidence.process import Process
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

replace = msgspec.structs.replace


def captured(rule):
    return evidence_of(rule)


def verdict(rule, evidence):
    return judge_one(all_rules()[rule], Case(evidence)).verdict


def first_main(evidence):
    return min((one for one in evidence.recording if one.role == "main"), key=lambda one: one.opened)


def with_main(evidence, **changed):
    main = first_main(evidence)
    return replace(evidence, recording=[replace(one, **changed) if one is main else one for one in evidence.recording])


def ended_by(evidence, **changed):
    return with_main(evidence, failures=[replace(first_main(evidence).failures[-1], **changed)])


def with_failures(evidence, change):
    changed = [replace(one, failures=[change(failure) for failure in one.failures]) for one in evidence.recording]
    return replace(evidence, recording=changed)


def with_status(evidence, old, new, later=0.0):
    exits = [replace(one, status=new, at=one.at + later) if one.status == old else one for one in evidence.exits]
    return replace(evidence, exits=exits)


RULES = [
    "collate-unequal-shapes",
    "corrupt-image-sample",
    "daemonic-children",
    "missing-main-guard",
    "unpicklable-dataset",
    "worker-exited-silently",
    "worker-segfault",
]


@pytest.mark.parametrize("rule", RULES)
def test_a_main_process_that_caught_it_and_went_on_is_not_dead_of_it(rule):
    assert verdict(rule, with_main(captured(rule), failures=[], ended=99.0)) == "clear"


def test_a_worker_that_is_told_to_go_while_its_main_process_fails_of_something_else_is_innocent():
    late = with_status(captured("worker-exited-silently"), 3, 0, later=9.0)

    for kind in ("KeyError", "ConnectionResetError"):
        evidence = ended_by(late, type=kind, message="own", causes=[])
        assert verdict("worker-exited-silently", evidence) == "clear"


def test_an_exit_that_surfaces_as_a_missing_socket_is_still_an_exit_of_the_worker():
    evidence = captured("worker-exited-silently")
    frame = replace(first_main(evidence).failures[-1].frames[-1], file="/usr/lib/python3/multiprocessing/connection.py")
    masked = ended_by(evidence, type="FileNotFoundError", message="[Errno 2]", causes=[], frames=[frame])
    own = ended_by(masked, frames=[replace(frame, file="/project/train.py")])

    assert verdict("worker-exited-silently", masked) == "found"
    assert verdict("worker-exited-silently", own) == "clear"


def test_a_bus_error_is_a_crash_unless_shared_memory_is_full():
    evidence = with_status(captured("worker-segfault"), -11, -7)
    host = evidence.host[0]
    full = replace(host.samples[-1], shm_size=1000, shm_free=10)
    without_room = replace(evidence, host=[replace(host, samples=[*host.samples, full])])

    assert verdict("worker-segfault", evidence) == "found"
    assert report_on(without_room).findings[0].rule == "shm-exhausted"


def test_samples_of_one_shape_fail_to_collate_for_another_reason():
    def alike(failure):
        return replace(failure, shapes=["float32[3]"] * 8) if failure.shapes else failure

    assert verdict("collate-unequal-shapes", with_failures(captured("collate-unequal-shapes"), alike)) == "clear"


def test_a_disk_that_fails_is_no_damaged_image():
    def of_the_disk(failure):
        return replace(failure, message="[Errno 5] Input/output error") if failure.how == "fetch" else failure

    assert verdict("corrupt-image-sample", with_failures(captured("corrupt-image-sample"), of_the_disk)) == "clear"


def test_a_training_process_that_was_killed_while_its_command_went_on_is_told_as_the_child_it_is():
    """As in a hogwild training: the main process joins its children and does not look at how they ended."""
    mains = [Process("n", 7, 1, "main"), Process("n", 8, 7, "main"), Process("n", 9, 7, "main")]
    exits = [Exit(8, -9, 4.0, "reaped", 7, node="n"), Exit(7, 0, 9.0, "waited", node="n")]
    run = Run(id="r", status=0, pid=7, host="n")

    (found,) = report_on(Evidence(run=run, recording=mains, exits=exits)).findings

    assert found.cause == "Child process 8 of the main process (pid 7) was killed (SIGKILL)."
    assert any("went on without it and exited with code 0" in line for line in found.seen)
