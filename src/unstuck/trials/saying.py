"""What a rung has seen, in a few words; and what turns its success into a failure, or the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..analysis.trials import root_of
from ..evidence.trial import FAIL, PASS, SKIP, Rung
from ..wording.text import duration, many, size
from .ladder import TRIED_WORKERS, Step

if TYPE_CHECKING:
    from .attempt import Outcome
    from .climbing import Climbed

FORKS = "fork"
REFUSALS = ("wds-no-nodesplitter", "uncaught-exception", "worker-python-exception", "rank-crash-cascade")


def with_reason(step: Step, rung: Rung, outcome: Outcome, climbed: Climbed) -> Rung:
    if rung.status == FAIL:
        return {"spawn": _only_forked, "ranks": _only_alone}.get(step.name, lambda one, _: one)(rung, climbed)
    failed = _nothing_came(step, outcome.facts, climbed)
    if failed:
        return msgspec.structs.replace(rung, status=FAIL, reason=failed)
    return msgspec.structs.replace(rung, reason=_seen(step, outcome.facts, climbed))


def _only_forked(rung: Rung, climbed: Climbed) -> Rung:
    """The loader is used with fork, and works so: that it could not be spawned is worth a word, not a failure."""
    forked = [one for one in climbed.rungs if one.name in ("workers", "one-worker") and one.status == PASS]
    tried = any(one.name in ("workers", "one-worker") for one in climbed.rungs)
    rung = msgspec.structs.replace(rung, findings=[]) if tried else rung
    if not forked:
        return rung
    reason = f"works with {FORKS} only (not on macOS, Windows, or with Python 3.14's default): {rung.reason}"
    return msgspec.structs.replace(rung, status=SKIP, reason=reason)


def _only_alone(rung: Rung, climbed: Climbed) -> Rung:
    """One that refuses to be read by several ranks may never be meant for them; one that hangs or dies there is not."""
    root = root_of(rung.findings)
    meant = climbed.loader is not None and climbed.loader.sampler == "DistributedSampler"
    if meant or rung.ended != "itself" or (root is not None and root.rule not in REFUSALS):
        return rung
    return msgspec.structs.replace(rung, status=SKIP, reason=f"for one rank only: {rung.reason}", findings=[])


def _nothing_came(step: Step, facts: dict[str, Any], climbed: Climbed) -> str:
    """It raised nothing, and yet there is no data."""
    if step.what == "samples" and not facts.get("samples"):
        return f"{_dataset(climbed)} gives no sample: it is empty"
    counts = facts.get("batches", [])
    if step.what == "passes" and counts and not counts[0]:
        return f"the loader gives no batch{_short_of_one(climbed)}"
    if step.name == "second-epoch" and len(counts) > 1 and counts[0] and not counts[1]:
        return (
            f"the second pass gives no batch, after {many(counts[0], 'batch')} in the first: its data can be read once"
        )
    ranks = facts.get("ranks", [])
    if any(not one["batches"] for one in ranks):
        empty = next(number for number, one in enumerate(ranks) if not one["batches"])
        return f"rank {empty} gets no batch, the other {max(one['batches'] for one in ranks)}"
    return ""


def _short_of_one(climbed: Climbed) -> str:
    loader = climbed.loader
    if loader is None or not loader.drop_last or not loader.dataset_length or not loader.batch_size:
        return ""
    return f": its {loader.dataset_length} samples do not fill one of {loader.batch_size}, and drop_last=True drops it"


def _dataset(climbed: Climbed) -> str:
    return (climbed.loader.dataset if climbed.loader is not None else "") or "the dataset"


def _seen(step: Step, facts: dict[str, Any], climbed: Climbed) -> str:
    if step.what == "passes":
        return _passes(step, facts, climbed)
    if step.name == "benchmark":
        return climbed.measured.sentence
    says = {"construct": _loader, "samples": _samples, "collate": _batch, "stopping": _left, "ranks": _ranks}
    return says[step.what](facts)


def _batch(facts: dict[str, Any]) -> str:
    batch = facts["batch"]
    return f"{batch['shapes'] or 'no tensors'}; {size(batch['size'])} in {duration(facts['collated'])}"


def _left(facts: dict[str, Any]) -> str:
    return f"left in {duration(max(facts.get('left_in') or [0.0]))}, begun again"


def _loader(facts: dict[str, Any]) -> str:
    loader = facts["loader"]
    length = f" of {loader['dataset_length']:,} samples" if loader.get("dataset_length") is not None else ""
    workers = many(loader["num_workers"], "worker")
    return f"{facts['gave']}: {loader['dataset']}{length}, batch {loader['batch_size']}, {workers}"


def _samples(facts: dict[str, Any]) -> str:
    noted = facts["samples"]
    slowest = max(noted, key=lambda one: one["seconds"])
    shapes = noted[0].get("shapes") or "no tensors"
    if len(noted) == 1:
        return f"{shapes}; {size(noted[0]['size'])} in {duration(noted[0]['seconds'])}"
    middle = sorted(one["seconds"] for one in noted)[len(noted) // 2]
    longest = f"the slowest {duration(slowest['seconds'])} ({slowest['index']})"
    return f"{many(len(noted), 'sample')}, {duration(middle)} each, {longest}"


def _passes(step: Step, facts: dict[str, Any], climbed: Climbed) -> str:
    counts, ended = facts["batches"], facts.get("ended", [])
    whole = " (whole pass)" if ended and all(ended) else ""
    with_workers = f", {many(facts['workers'], 'worker')}" if step.name in ("workers", "spawn") else ""
    if step.name == "workers" and climbed.loader is not None and not climbed.loader.num_workers:
        with_workers = f", {TRIED_WORKERS} workers tried: it is configured with none"
    if len(counts) > 1:
        apart = all(ended) and counts[0] != counts[1]
        note = ": not the same number" if apart else ""
        return f"{counts[0]:,} and {counts[1]:,} batches{note}"
    return f"{many(counts[0], 'batch')}{whole}{with_workers}"


def _ranks(facts: dict[str, Any]) -> str:
    counts = [one["batches"] for one in facts["ranks"]]
    drawn = {"stream": "a stream"}.get(facts["drawn"], facts["drawn"])
    uneven = all(one["ended"] for one in facts["ranks"]) and len(set(counts)) > 1
    note = "; uneven: a training would wait for the other" if uneven else ""
    if len({one.get("first") or number for number, one in enumerate(facts["ranks"])}) < len(counts):
        note += "; both begin with the same batch: share the data out by rank before you train in several"
    return f"{counts[0]:,} and {counts[1]:,} batches, {drawn}{note}"
