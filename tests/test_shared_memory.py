"""A worker killed by SIGBUS while it writes a batch may have met a full /dev/shm, or a file that was cut short."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Host
from unstuck.evidence.basics import Place

# Torch 2.2 on Python 3.10, where both workers were killed by SIGBUS and no look met the full moment.
KEPT = Path(__file__).parent / "rules" / "shm-exhausted" / "killed-by-sigbus.json"
GIB = 1 << 30
replace = msgspec.structs.replace


def kept() -> Evidence:
    return msgspec.json.decode(KEPT.read_bytes(), type=Evidence)


def outcome(evidence: Evidence) -> dict[str, str]:
    return {one.rule: one.role for one in report_on(evidence).findings}


def with_memory(host: Host, total: int, free: int) -> Host:
    return replace(host, samples=[replace(one, shm_size=total, shm_free=free) for one in host.samples])


def test_batches_that_do_not_fit_are_the_likely_cause_of_a_sigbus_in_torchs_sharing_code():
    found = report_on(kept()).findings

    assert outcome(kept()) == {"shm-exhausted": "root", "uncaught-exception": "consequence"}
    assert found[0].certainty == "likely"
    assert "up to 9 batches of 6.0 MiB wait in it" in found[0].seen


def test_a_look_that_met_it_full_makes_it_certain():
    full = replace(kept(), host=[with_memory(one, 24 << 20, 0) for one in kept().host])

    assert outcome(full) == {"shm-exhausted": "root", "uncaught-exception": "consequence"}
    assert report_on(full).findings[0].certainty == "certain"


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
    whole = msgspec.json.decode((KEPT.parent / "found.json").read_bytes(), type=Evidence)
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
