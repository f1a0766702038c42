"""torch.compile compiles a function again and again, because something it took for fixed changes.

## It means
What a compiled function sees of Python is fixed when it is compiled: a number that is an argument or an attribute, the
length of a list, sizes where `dynamic=False`, types, whether gradients are on. A guard checks that before every call;
where it fails, the function is compiled again, which takes seconds to minutes. After eight times (torch's
`recompile_limit`, called `cache_size_limit` in older versions) it runs eagerly from then on, and only a warning says
so.

## Fix
Make what changes a tensor, or keep it out of the compiled function:

```python
class Net(nn.Module):  # before: one compilation for every value of self.calls
    def __init__(self):
        ...
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x / self.calls
```

```python
class Net(nn.Module):  # after: the value is data, not a constant
    def __init__(self):
        ...
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x):
        self.calls += 1
        return x / self.calls
```

For sizes: `torch.compile(model, dynamic=True)`, or `torch._dynamo.mark_dynamic(x, 1)` before the first call, or pad
to a few sizes. For a learning rate: `torch.tensor(lr)`. From torch 2.6 on, integers of modules may vary with
`torch._dynamo.config.allow_unspec_int_on_nn_module = True`, which is a private setting.

## Check it yourself

```sh
TORCH_LOGS=recompiles python train.py 2>&1 | grep -A 3 Recompiling
```

## Not this, if
- only the first steps are slow: compiling once, or once more for another size, is what torch.compile does
- the steps are slow and nothing is compiled: [straggler-rank](straggler-rank.md), [heavy-transform](heavy-transform.md)
- a build of a C++ extension waits for a lock: [filebaton-stale-lock](filebaton-stale-lock.md)

## How sure
Judged from every compilation of torch.compile: which function, how long, and why it was needed again, in torch's own
words (the guard that failed); and whether torch reached its limit. Certain of reasons and times, they are torch's own.
It speaks when the limit was reached, or when compiling again took a tenth of the run and a second or more, three times
or more. To compile once, or once more for the last batch or for evaluation, is left alone.

## Seen in
- https://github.com/pytorch/pytorch/issues/128319: a counter of a module recompiled forward for every value
- https://github.com/microsoft/dion/issues/23: recompile_limit (8) reached because tensors differ in size
- https://github.com/LLM-QC/AdversariaLLM/issues/36: the limit has another name in torch 2.6
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
from ...wording.printable import quoted_line
from ...wording.text import duration, line, many, percent
from ..rule import rule

TEXTS = (
    "torch._dynamo hit config.recompile_limit",
    "torch._dynamo hit config.cache_size_limit",
    "recompile_limit reached with",
)
TIMES = 3  # compiled again: once for other sizes and once for evaluation is usual
SHARE = 0.1  # of the run
SECONDS = 1.0  # in all: less is not noticed
SIZES = ("size mismatch", "stride mismatch", ".size()[", ".stride()[")
SIZE = re.compile(r"tensor '(.+)' size mismatch at index (\d+)\. expected (\d+), actual (\d+)")
SIZE_OF = re.compile(r"(\S+)\.size\(\)\[(\d+)\]")
LOCAL = re.compile(r"L\['(\w+)'\]")  # as some versions of torch name an argument
CONDITION = re.compile(r"[=!<>]=|[<>]| is | not | in ")  # such a guard says what had to hold, others what went wrong
NUMBER = re.compile(r"==\s*-?[\d.]+(e[+-]?\d+)?\b")
QUOTED = 40  # characters of a guard in the cause; the evidence has all of it


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
        ends = "; it hit the limit and now runs eagerly" if one.limited else ""
        remedy, *others = _remedies(case, guard)
        yield case.finding(
            one.process,
            cause=f"torch.compile recompiled {one.where.function} {_times(len(one.times))} {_why(guard)}{ends}.",
            seen=list(_seen(one)),
            remedy=remedy,
            alternatives=[*others, _look(case)],
            onset_s=one.times[0].at,
            where=one.where,
            subject=Subject("function", one.where.function),
        )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


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
    sizes = SIZE.search(guard) or SIZE_OF.search(guard)
    if sizes is not None:
        return f"because the size of {_plain(sizes[1])} changes at dimension {sizes[2]}"
    if not guard:
        return "because a guard failed"
    first = guard.partition(". ")[0]
    told = first if len(first) <= QUOTED else f"{first[:QUOTED]}…"
    if NUMBER.search(guard):
        return f"because {_plain(guard.partition('==')[0].strip())} changes"
    return f"because {told} no longer held" if CONDITION.search(guard) else f"because a guard failed: {told}"


def _plain(name: str) -> str:
    return LOCAL.sub(r"\1", name)


def _seen(one: Again) -> Iterator[str]:
    ran = lasted(one.process)
    share = f", {percent(one.seconds / ran)} of the run" if ran else ""
    yield f"{many(len(one.times), 'recompilation')} of {line(one.where)} took {duration(one.seconds)}{share}"
    guards = list(dict.fromkeys(guard for each in one.times if (guard := _guard(each.reason))))
    shown = guards if len(guards) <= 3 else [*guards[:2], guards[-1]]
    if shown:
        yield f"guards that failed: {'; '.join(shown)}{f' ({len(guards)} in all)' if len(guards) > 3 else ''}"
    if one.limited:
        yield "torch reached its recompile limit: it does not compile this function any more"


def _remedies(case: Case, guard: str) -> list[Remedy]:
    """The first is the thing to do, for this kind of guard."""
    if any(part in guard for part in SIZES):
        vary = Remedy("Let the size vary", code=["model = torch.compile(model, dynamic=True)"])
        mark = _marked(guard)
        marked = [Remedy("Mark the dimension before the first call", code=[mark])] if mark else []
        return [vary, *marked, Remedy("Pad the input to a few fixed sizes")]
    name = _plain(guard.partition("==")[0].strip())
    if guard.startswith("len("):
        parts = name.removeprefix("len(").removesuffix(")")
        code = [f"{parts} = torch.stack({parts})"] if parts.isidentifier() else []
        return [Remedy("Pass one tensor, stacked or padded, instead of a list whose length changes", code=code)]
    number = NUMBER.search(guard)
    if number is not None and "." in name:
        return _of_attribute(case, name, whole="." not in number[0] and "e" not in number[0])
    if number is not None:
        code = [f"{name} = torch.tensor({name})"] if name.isidentifier() else []
        return [Remedy(f"Pass {name} as a tensor: it is then data, not a constant", code=code)]
    return [Remedy("Keep what the guard checks the same from call to call")]


def _of_attribute(case: Case, name: str, *, whole: bool) -> list[Remedy]:
    last = name.rpartition(".")[2]
    kind = "int64" if whole else "float32"
    zero = f'self.register_buffer("{last}", torch.zeros((), dtype=torch.{kind}), persistent=False)'
    outside = Remedy(f"Change {name} outside of the compiled function")
    vary = Remedy(
        "Let integers of modules vary, by a private setting",
        code=["torch._dynamo.config.allow_unspec_int_on_nn_module = True"],
    )
    buffer = Remedy(
        f"Keep {name} in a tensor, changed in place: it is then data, not a constant",
        code=[zero] if last.isidentifier() else [],
    )
    return [buffer, outside, *(case.from_version("torch", 2, 6, remedy=vary) if whole else [])]


def _look(case: Case) -> Remedy:
    command = quoted_line(case.run.command) or "python train.py"
    return Remedy("Print the reason for every recompilation", [f"TORCH_LOGS=recompiles {command}"])


def _marked(guard: str) -> str:
    """The call for the dimension that the guard names."""
    found = SIZE.search(guard) or SIZE_OF.search(guard)
    if found is None:
        return ""
    name = _plain(found[1])
    return f"torch._dynamo.mark_dynamic({name if name.isidentifier() else 'x'}, {found[2]})"
