"""torch.compile compiles the same function again and again, because something it took for fixed keeps changing.

## What it looks at
Every compilation of torch.compile: which function, how long, and why it was needed again, in torch's own words: the
guard that did not hold. And whether torch has given the function up because it reached its limit.

## Why it happens
What a compiled function sees of Python is fixed when it is compiled: a number that is an argument or an attribute, the
length of a list, sizes where `dynamic=False`, types, whether gradients are on. A guard checks that before every call;
where it fails, the function is compiled anew, which takes seconds to minutes. After eight times (torch's
`recompile_limit`) it runs uncompiled from then on, and only a warning says so.

## What to do
Make what changes a tensor: a counter as a buffer, a learning rate as `torch.tensor(lr)`. For sizes, let them vary
(`dynamic=True`, or `torch._dynamo.mark_dynamic(x, dimension)`), or pad to a few of them. Keep code that changes from
step to step out of the compiled function.

## How sure it is
Certain of the reasons and times, they are torch's own. It speaks when the limit was reached, or when compiling again
took a tenth of the run and a second or more, three times or more. To compile once, or once more for the last batch or
for evaluation, is what torch.compile does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.loading import lasted
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Compiled
from ...evidence.process import Process
from ...wording.text import duration, line, many, percent, short, who
from ..rule import rule

TIMES = 3  # compiled again: once for other sizes and once for evaluation is usual
SHARE = 0.1  # of the run
SECONDS = 1.0  # in all: less nobody notices
SIZES = ("size mismatch", "stride mismatch", ".size()[", ".stride()[")
SIZE = re.compile(r"tensor '(.+)' size mismatch at index (\d+)\. expected (\d+), actual (\d+)")
SIZE_OF = re.compile(r"(\S+)\.size\(\)\[(\d+)\]")
LOCAL = re.compile(r"^L\['(\w+)'\]$")  # as some versions of torch name an argument
CONDITION = re.compile(r"[=!<>]=|[<>]| is | not | in ")  # such a guard says what had to hold, others what went wrong
NUMBER = re.compile(r"==\s*-?[\d.]+(e[+-]?\d+)?\b")


class Again(NamedTuple):
    """One function, whenever it was compiled for another reason than that it was new."""

    process: Process
    where: Place
    times: list[Compiled]

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.times)

    @property
    def limited(self) -> bool:
        return any(one.limited for one in self.times)


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    found = [one for process in case.mains for one in _again(process) if _matters(one)]
    for one in sorted(found, key=lambda one: (-one.limited, -one.seconds))[:1]:
        guard = _guard(one.times[-1].reason)
        ends = ", and torch has given it up: it runs uncompiled since" if one.limited else ""
        yield case.finding(
            one.process,
            cause=f"torch.compile compiled {one.where.function} ({short(one.where)}) {len(one.times)} times again in "
            f"{who(one.process)}, {_why(guard)}{ends}. That took {duration(one.seconds)}.",
            seen=list(_seen(one)),
            remedy=_remedy(guard),
            onset_s=one.times[0].at,
            where=one.where,
            subject=Subject("function", one.where.function),
        )


def _again(process: Process) -> Iterator[Again]:
    places = dict.fromkeys(one.where for one in process.compiled if one.where is not None)
    for where in places:
        times = [one for one in process.compiled if one.where == where and (one.reason or one.limited)]
        if times:
            yield Again(process, where, times)


def _matters(one: Again) -> bool:
    costly = one.seconds >= max(SECONDS, SHARE * lasted(one.process))
    return one.limited or (len(one.times) >= TIMES and costly)


def _guard(reason: str) -> str:
    """The condition alone: torch puts a number before it, and the line it comes from behind."""
    text = re.sub(r"^\d+/\d+:\s*", "", reason.splitlines()[0]) if reason else ""
    return re.split(r"\s+# |\s+\(HINT", text)[0].strip().rstrip(".")


def _why(guard: str) -> str:
    if (sizes := SIZE.search(guard)) is not None:
        name, index, was, now = sizes.groups()
        return f"because the size of {_plain(name)} at dimension {index} changed ({was}, then {now})"
    if not guard:
        return "because one of its guards failed"
    return f"because {guard} no longer held" if CONDITION.search(guard) else f"because a guard failed ({guard})"


def _plain(name: str) -> str:
    return LOCAL.sub(r"\1", name)


def _seen(one: Again) -> Iterator[str]:
    ran = lasted(one.process)
    share = f", {percent(one.seconds / ran)} of the run" if ran else ""
    took = f"{many(len(one.times), 'compilation')} after the first took {duration(one.seconds)}{share}"
    yield f"{took}: {line(one.where)}"
    guards = list(dict.fromkeys(guard for each in one.times if (guard := _guard(each.reason))))
    shown = guards if len(guards) <= 3 else [*guards[:2], guards[-1]]
    if shown:
        yield f"the guards that failed: {'; '.join(shown)}{f' ({len(guards)} in all)' if len(guards) > 3 else ''}"
    if one.limited:
        yield "torch's recompile_limit was reached: the function is not compiled any more"


def _remedy(guard: str) -> Remedy:
    look = ["TORCH_LOGS=recompiles python …"]
    if any(part in guard for part in SIZES):
        vary = f"Let the size vary: compile with dynamic=True{_marked(guard)}."
        return Remedy(f"{vary} Or pad to a few fixed sizes.", look)
    if guard.startswith("len("):
        return Remedy(
            f"Pass one tensor (torch.stack, or padded) instead of a list whose length changes: {guard}.", look
        )
    if "." in guard.partition("=")[0] and NUMBER.search(guard):
        name = guard.partition("=")[0].strip()
        return Remedy(
            f"Make {name} a tensor (self.register_buffer), or change it outside of what is compiled. A whole number of "
            "a module may also be let vary: `torch._dynamo.config.allow_unspec_int_on_nn_module = True`.",
            look,
        )
    if NUMBER.search(guard):
        return Remedy("Pass that number as a tensor (torch.tensor(value)): it is then data, and no longer fixed.", look)
    about = f": {guard}" if guard else ""
    return Remedy(f"Keep what the guard is about the same from call to call{about}.", look)


def _marked(guard: str) -> str:
    """The call for the dimension that the guard names."""
    found = SIZE.search(guard) or SIZE_OF.search(guard)
    if found is None:
        return ""
    name = _plain(found[1])
    call = f"torch._dynamo.mark_dynamic({name if name.isidentifier() else 'x'}, {found[2]})"
    return f", or mark that dimension before the first call: `{call}`"
