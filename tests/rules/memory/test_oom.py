"""A counter of OOM kills explains a death only if it moved with it, and only if it can be about that process."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.memory import Needs, kills_at, kills_at_the_end
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Sample
from unstuck.probes.journals import KEPT, thinned

OWN, ABOVE = "/sys/fs/cgroup/kubepods/pod1", "/sys/fs/cgroup/kubepods"
GIB = 1 << 30
KILLED = {"worker": "worker-killed", "main": "main-oom-killed"}  # evidence with a SIGKILL of each
replace = msgspec.structs.replace


def evidence(rule: str) -> Evidence:
    return evidence_of(rule)


def counted(found: Evidence, moved: dict[str, float], groups: tuple[str, ...] = (OWN, ABOVE), **memory) -> Evidence:
    """The same run, in other cgroups: the counter of each group moves at the time given for it, or not at all."""

    def change(sample: Sample) -> Sample:
        counts = {group: 3 + (sample.at >= moved.get(group, 1e9)) for group in groups}
        return replace(sample, oom_kills=counts, **(memory if sample.processes else {}))

    (host,) = found.host
    own = next((group for group in groups if group != "machine"), None)
    return replace(found, host=[replace(host, cgroup=own, samples=[change(one) for one in host.samples])])


def killed_at(found: Evidence) -> float:
    return min(one.at for one in found.exits if one.status == -9)


def roots(found: Evidence) -> list[str]:
    return [one.rule for one in report_on(found).findings if one.role == "root"]


def seen(found: Evidence, rule: str) -> str:
    return "\n".join(line for one in report_on(found).findings if one.rule == rule for line in one.seen)


@pytest.mark.parametrize("rule", KILLED)
def test_a_kill_of_another_pod_long_before_does_not_make_a_sigkill_an_oom_kill(rule):
    found = counted(evidence(KILLED[rule]), {ABOVE: 1.0})

    assert roots(found) == [f"{rule}-killed"]
    assert "an OOM kill elsewhere on this node was counted at 1" in seen(found, f"{rule}-killed")
    assert "no OOM kill was counted in its memory cgroup at that moment" in seen(found, f"{rule}-killed")


@pytest.mark.parametrize("rule", KILLED)
def test_a_kill_of_another_process_of_the_same_cgroup_long_before_is_not_this_one(rule):
    found = counted(evidence(KILLED[rule]), {OWN: 1.0, ABOVE: 1.0})

    assert roots(found) == [f"{rule}-killed"]
    assert f"an OOM kill of another process in {OWN} was counted at 1" in seen(found, f"{rule}-killed")


@pytest.mark.parametrize("rule", KILLED)
def test_the_counter_of_its_own_cgroup_is_enough_when_it_moves_with_the_death(rule):
    found = evidence(KILLED[rule])
    found = counted(found, {OWN: killed_at(found)}, limit=64 * GIB, used=GIB)

    assert roots(found) == [f"{rule}-oom-killed"]


@pytest.mark.parametrize(("used", "expected"), [(GIB, "worker-killed"), (63 * GIB, "worker-oom-killed")])
def test_the_counter_of_a_cgroup_above_needs_memory_that_was_nearly_full(used, expected):
    found = evidence("worker-killed")
    found = counted(found, {ABOVE: killed_at(found)}, limit=64 * GIB, used=used)

    assert roots(found) == [expected]


@pytest.mark.parametrize(("left", "expected"), [(20 * GIB, "worker-killed"), (GIB, "worker-oom-killed")])
def test_the_counter_of_the_machine_needs_a_machine_without_memory(left, expected):
    found = evidence("worker-killed")
    found = counted(
        found, {"machine": killed_at(found)}, ("machine",), limit=None, used=None, total=24 * GIB, available=left
    )

    assert roots(found) == [expected]


def test_a_count_of_the_machine_at_that_moment_leaves_open_what_it_was_where_no_cgroup_counts():
    found = evidence("worker-killed")
    found = counted(found, {"machine": killed_at(found)}, ("machine",), limit=None, used=None, available=20 * GIB)

    assert "cannot be told" in report_on(found).findings[0].cause


def test_counts_that_were_not_read_after_the_death_say_nothing():
    found = evidence("worker-killed")
    (host,) = found.host
    (pid,) = {one.pid for one in found.exits if one.status == -9}
    last = max(one.at for one in host.samples if any(held.pid == pid for held in one.processes))
    before = [one for one in host.samples if one.at <= last]

    unread = replace(found, host=[replace(host, samples=before)])

    assert roots(unread) == ["worker-killed"]
    assert "cannot be told" in report_on(unread).findings[0].cause


def test_a_counter_that_is_read_after_the_watcher_was_killed_too_still_counts():
    found = evidence("container-oom-killed")
    (host,) = found.host

    assert [one.after for one in kills_at_the_end(host).of_it] == [1]
    assert [one.after for one in kills_at(host, 14, host.samples[-1].at + 30).of_it] == [1]


def test_a_run_that_broke_off_long_after_a_kill_of_another_pod_was_not_ended_by_it():
    found = counted(evidence("container-oom-killed"), {ABOVE: 1.0, OWN: 1.0}, limit=64 * GIB, used=GIB)

    assert kills_at_the_end(found.host[0]).of_it == []
    assert "container-oom-killed" not in roots(found)


def test_a_rank_that_was_killed_says_so_of_kills_elsewhere():
    found = evidence("rank-crash-cascade")
    (rank,) = [one for one in found.recording if one.pid == 20431]
    others = [one for one in found.recording if one is not rank]
    exits = [replace(one, status=-9) if one.pid == rank.pid else one for one in found.exits]
    killed = replace(found, recording=[*others, replace(rank, failures=[], ended=None)], exits=exits)

    for moved in ({ABOVE: 1.0}, {OWN: 1.0}):
        assert roots(counted(killed, moved)) == ["rank-crash-cascade"]
        assert "was counted at 1" in seen(counted(killed, moved), "rank-crash-cascade")
    assert roots(counted(killed, {OWN: 9.0})) == ["main-oom-killed"]


def test_when_a_kill_was_counted_stays_known_in_a_long_run():
    samples = [Sample(at=float(at), oom_kills={OWN: at >= 777}) for at in range(5000)]

    kept = thinned(samples)
    moved = [(before.at, after.at) for before, after in pairwise(kept) if before.oom_kills != after.oom_kills]

    assert moved == [(776.0, 777.0)]
    assert len(kept) <= 2 * KEPT + 2
    assert [one.at for one in kept] == sorted({one.at for one in kept})


def outcome(found: Evidence) -> tuple[str, list[str], dict[str, str | None]]:
    """The state, the roots, and what each consequence is of."""
    report = report_on(found)
    led_to = {one.rule: one.because_of for one in report.findings if one.role == "consequence"}
    return report.state, [one.rule for one in report.findings if one.role == "root"], led_to


def kept(rule: str, name: str) -> Evidence:
    return evidence_of(rule, name)


@pytest.mark.parametrize(
    ("name", "victim", "led_to"),
    [
        ("main", "the main process", {"main-oom-killed": "cow-refcount-growth", "main-killed": "cow-refcount-growth"}),
        ("worker", "worker", {"worker-oom-killed": "cow-refcount-growth", "uncaught-exception": "cow-refcount-growth"}),
    ],
)
def test_copies_of_python_objects_are_the_cause_of_the_oom_kill_they_led_to(name, victim, led_to):
    found = kept("cow-refcount-growth", name)
    root = report_on(found).findings[0]

    assert outcome(found) == ("crashed", ["cow-refcount-growth"], led_to)
    assert f"until {victim}" in root.cause
    assert root.cause.endswith("was OOM-killed.")
    assert not any("is reached" in line or "to come" in line or "levelled" in line for line in root.seen)
    assert not any("num_workers=1" in each.text for each in (root.remedy, *root.alternatives))  # it would not fit


def test_the_one_sample_that_took_the_memory_is_the_cause():
    root = report_on(kept("worker-oom-killed", "one-sample")).findings[0]

    assert (root.rule, root.subject.name) == ("worker-oom-killed", "171")
    assert "while it loaded sample 171" in root.cause
    assert "volume-171.npy" in root.remedy.text
    assert not any("num_workers=" in each.text for each in (root.remedy, *root.alternatives))
    assert outcome(kept("worker-oom-killed", "one-sample"))[1:] == (
        ["worker-oom-killed"],
        {"uncaught-exception": "worker-oom-killed"},
    )


def test_a_sample_like_all_others_is_not_named():
    found = kept("worker-oom-killed", "one-sample")

    def large(sample: Sample) -> Sample:
        """All samples before took as much, at one look in three."""
        more = 400 << 20 if int(sample.at * 2) % 3 == 0 else 0
        return replace(sample, processes=[replace(one, anonymous=one.anonymous + more) for one in sample.processes])

    host = found.host[0]
    usual = replace(found, host=[replace(host, samples=[large(one) for one in host.samples])])

    assert "sample" not in report_on(usual).findings[0].cause


def test_no_setting_is_advised_while_the_workers_were_still_taking_more():
    """What was advised by the numbers so far, num_workers=4 with prefetch_factor=1, died after 28 seconds."""
    found = report_on(kept("worker-oom-killed", "still-growing")).findings[0]

    assert not any("=" in each.text for each in (found.remedy, *found.alternatives))
    assert any("the workers were still growing" in line for line in found.seen)


def test_a_loader_whose_worker_ran_out_of_memory_is_not_given_more_workers():
    found = kept("worker-oom-killed", "one-sample")

    assert "dataloader-bound" not in [one.rule for one in report_on(found).findings]


def test_settings_are_advised_with_what_they_take():
    needs = Needs(limit=10 * GIB, base=GIB, worker=GIB, batch=GIB // 2, ranks=1, settled=True)

    assert needs.settings(6, 4) == (4, 1)
    assert needs.of(4, 1) <= 0.85 * needs.limit < needs.of(4, 2)
    assert replace_settled(needs).settings(6, 4) is None
    assert Needs(GIB, GIB, GIB, 0, 1, settled=True).settings(6, 4) is None


def replace_settled(needs: Needs) -> Needs:
    return needs._replace(settled=False)


def test_settings_count_for_every_rank_of_the_node():
    needs = Needs(limit=10 * GIB, base=GIB, worker=GIB, batch=0, ranks=2, settled=True)

    assert needs.settings(4, 2) == (3, 2)
