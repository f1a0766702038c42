"""The rungs of `unstuck doctor`: what is tried, in which order, and what each of them rests on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from ...errors import UserError
from ...evidence.loader import Loader

TRIED_WORKERS = 2  # where the loader is configured with none: would it work with workers?
SPAWNED_WORKERS = 2  # each imports everything again: more of them show nothing more
MANY = 1_000_000  # batches: the time is the limit


class Step(NamedTuple):
    """One rung. `what` names the child's file; empty: no child is needed."""

    name: str
    title: str
    what: str
    options: dict[str, Any] = {}  # noqa: RUF012  (a NamedTuple's default, never changed)
    needs: tuple[str, ...] = ()
    quick: bool = True  # also with --quick


# Seconds here are those after which a rung that goes well has seen enough; --limit ends one that does not.
LADDER = (
    Step("environment", "limits, CPU cores, variables and versions", ""),
    Step("construct", "import the target and make its loader", "construct"),
    Step("sample", "one sample, without a DataLoader", "samples", {"samples": 1}, ("construct",)),
    Step(
        "samples",
        "several samples, each timed",
        "samples",
        {"samples": 32, "seconds": 4.0, "memory": True},
        ("sample",),
    ),
    Step("collate", "one batch through collate_fn", "collate", {}, ("sample", "samples")),
    Step("no-workers", "the loader with num_workers=0", "passes", {"seconds": 4.0}, ("samples", "collate")),
    Step("one-worker", "the loader with 1 worker", "passes", {"seconds": 3.0}, ("no-workers",)),
    # Rules on how batches are sent need some of them, however slow they are.
    Step("workers", "the loader with its workers", "passes", {"seconds": 5.0, "least": 14}, ("one-worker",)),
    Step("second-epoch", "a second epoch after the first", "passes", {"seconds": 5.0, "passes": 2}, ("workers",)),
    Step("mid-epoch", "stop in mid-epoch, begin again", "stopping", {}, ("workers",)),
    Step("spawn", "workers that are spawned, not forked", "passes", {"seconds": 3.0}, ("no-workers",), quick=False),
    Step("ranks", "2 ranks (gloo) with its sampler", "ranks", {"seconds": 4.0}, ("workers",), quick=False),
    Step("benchmark", "what limits its speed", "benchmark", {}, ("workers",), quick=False),
)
NAMES = tuple(one.name for one in LADDER)


def chosen(only: str | None, skip: str | None, *, quick: bool) -> list[Step]:
    """The rungs to climb. One that is asked for by name is tried, also with --quick."""
    wanted, left_out = _names(only, "--only"), _names(skip, "--skip")
    if wanted:
        found = [one for one in LADDER if one.name in wanted and one.name not in left_out]
    else:
        found = [one for one in LADDER if one.name not in left_out and (one.quick or not quick)]
    if not found:
        raise UserError("no rung is left to try", f"the rungs are {', '.join(NAMES)}")
    return found


def _names(text: str | None, option: str) -> list[str]:
    names = [one.strip() for one in (text or "").split(",") if one.strip()]
    unknown = [one for one in names if one not in NAMES]
    if unknown:
        raise UserError(f"{option}: there is no rung {unknown[0]!r}", f"the rungs are {', '.join(NAMES)}")
    return names


def options_of(step: Step, loader: Loader | None) -> dict[str, Any]:
    """What the child is asked for, with this loader. Until it is known, as the loader is configured."""
    asked: dict[str, Any] = {"batches": MANY} if step.what in ("passes", "ranks") else {}
    asked |= step.options
    change = _change(step, loader)
    return asked | {"change": change} if change else asked


def _change(step: Step, loader: Loader | None) -> dict[str, Any]:
    configured = loader.num_workers if loader is not None else 0
    if step.name == "no-workers":
        return {"num_workers": 0}
    if step.name == "one-worker":
        return {"num_workers": 1}
    if step.name == "workers" and loader is not None and not configured:
        return {"num_workers": TRIED_WORKERS}
    if step.name == "spawn":
        return {"num_workers": min(configured, SPAWNED_WORKERS) or 1, "multiprocessing_context": "spawn"}
    return {}


def reason_to_skip(step: Step, loader: Loader | None, failed: Collection[str], default: str) -> str:
    """Why it is left out; empty: it is tried. `default` is the start method of this interpreter."""
    after = [one for one in step.needs if one in failed]
    if after:
        return f"after {after[0]} failed"
    if step.name == "one-worker" and loader is not None and loader.num_workers == 1:
        return "the loader has 1 worker: see workers"
    method = (loader.context if loader is not None else None) or default
    if step.name == "spawn" and method in ("spawn", "forkserver"):
        return f"its workers are started by {method} already: see workers"
    return ""
