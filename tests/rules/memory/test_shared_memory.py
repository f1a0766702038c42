"""A worker killed by SIGBUS while it writes a batch may have met a full /dev/shm, or a file that was cut short."""

from __future__ import annotations

import msgspec

from kept import KEPT
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Host
from unstuck.evidence.basics import Place

# Torch 2.2 on Python 3.10, where both workers were killed by SIGBUS and no look met the full moment.
SIGBUS = KEPT / "shm-exhausted" / "killed-by-sigbus.json"
GIB = 1 << 30
replace = msgspec.structs.replace


def kept() -> Evidence:
    return msgspec.json.decode(SIGBUS.read_bytes(), type=Evidence)


def outcome(evidence: Evidence) -> dict[str, str]:
    return {one.rule: one.role for one in report_on(evidence).findings}


def with_memory(host: Host, total: int, free: int) -> Host:
    return replace(host, samples=[replace(one, shm_size=total, shm_free=free) for one in host.samples])


def test_batches_that_do_not_fit_are_the_likely_cause_of_a_sigbus_in_torchs_sharing_code():
    found = report_on(kept()).findings

    assert outcome(kept()) == {"shm-exhausted": "root", "uncaught-exception": "consequence"}
    assert found[0].certainty == "likely"
    assert "up to 9 batches of 6.0 MiB wait in it" in found[0].seen
    assert "is killed by signal: Bus error" in found[0].saw


def test_a_look_that_met_it_full_makes_it_certain():
    full = replace(kept(), host=[with_memory(one, 24 << 20, 0) for one in kept().host])

    assert outcome(full) == {"shm-exhausted": "root", "uncaught-exception": "consequence"}
    assert report_on(full).findings[0].certainty == "certain"


def remedies(total: int, machine: int, limit: int | None = None, scheduler: str = "") -> list[str]:
    """On a machine with so much memory, where /dev/shm is that large."""
    evidence = msgspec.json.decode((SIGBUS.parent / "found.json").read_bytes(), type=Evidence)
    hosts = [
        replace(host, samples=[replace(one, total=machine, limit=limit, used=0) for one in host.samples])
        for host in evidence.host or ()
    ]
    processes = [
        replace(process, failures=[replace(failure, shm_size=total) for failure in process.failures])
        for process in evidence.recording or ()
    ]
    run = replace(evidence.run, scheduler=scheduler)
    found = report_on(replace(evidence, run=run, host=hosts, recording=processes)).findings[0]
    assert found.rule == "shm-exhausted"
    return [line for each in (found.remedy, *found.alternatives) for line in (each.text, *each.commands)]


def test_the_size_that_is_advised_is_one_that_the_machine_can_give():
    assert any("--shm-size=8g" in line for line in remedies(64 << 20, 64 * GIB))
    assert "sudo mount -o remount,size=8G /dev/shm" in remedies(64 << 20, 64 * GIB)
    assert any("--shm-size=32g" in line for line in remedies(16 * GIB, 128 * GIB))
    assert any("--shm-size=3g" in line for line in remedies(64 << 20, 64 * GIB, limit=6 * GIB))
    assert any("--shm-size=512m" in line for line in remedies(64 << 20, GIB))


def test_where_it_has_half_of_the_memory_already_the_batches_have_to_be_fewer():
    found = remedies(126 * GIB, 252 * GIB)

    assert found == ["Use num_workers=1, prefetch_factor=1 (now 2 and 4), or smaller batches."]


def test_in_kubernetes_it_is_the_pod_that_mounts_it():
    found = remedies(64 << 20, 64 * GIB, scheduler="Kubernetes")

    assert found[0] == "Mount an emptyDir with medium: Memory at /dev/shm (sizeLimit: 8Gi)."
    assert not any("docker" in line or "sudo" in line for line in found)


def test_where_all_batches_fit_it_is_a_crash_of_native_code():
    mains = [replace(one, failures=[replace(it, shm_size=GIB) for it in one.failures]) for one in kept().recording]
    large = replace(kept(), recording=mains, host=[with_memory(one, GIB, GIB) for one in kept().host])

    assert outcome(large) == {"worker-segfault": "root", "uncaught-exception": "consequence"}


def test_a_sigbus_in_the_users_own_line_is_a_crash_of_native_code():
    mapped = Place("/project/train.py", 11, "__getitem__")
    reading = [replace(one, crash=[*one.crash[:-1], mapped] if one.crash else []) for one in kept().recording]

    assert outcome(replace(kept(), recording=reading)) == {
        "worker-segfault": "root",
        "uncaught-exception": "consequence",
    }


def test_a_sigbus_beside_a_worker_that_was_refused_space_is_no_second_cause():
    whole = msgspec.json.decode((SIGBUS.parent / "found.json").read_bytes(), type=Evidence)
    refused = next(it for one in whole.recording for it in one.failures if "No space left" in it.message)
    last = max((one for one in kept().exits if one.status == -7), key=lambda one: one.at)  # torch names the first
    (victim,) = [one for one in kept().recording if one.pid == last.pid]
    told = replace(victim, crash=[], failures=[replace(refused, at=last.at)])
    others = [replace(one, fetching=[]) for one in kept().recording if one.pid != victim.pid]  # no sizes of batches

    def judged(process) -> dict[str, str]:
        exits = [one for one in kept().exits if one.pid != victim.pid]
        return outcome(replace(kept(), recording=[*others, process], exits=exits))

    assert judged(told) == {"shm-exhausted": "root", "uncaught-exception": "consequence"}
    assert judged(replace(told, failures=[]))["worker-segfault"] == "root"
