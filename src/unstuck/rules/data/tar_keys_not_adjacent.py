"""Parts of a sample do not stand together in the archive: webdataset makes several incomplete samples of it.

## What it looks at
The order of the members: which of them have the same name up to its first dot, and whether others stand between them.

## Why it happens
webdataset reads an archive once, from front to back, and begins a new sample wherever the key changes. `tar -cf` takes
files in the order in which the folder has them; several processes or threads that write one archive mix theirs; images
first and labels afterwards is another way to it. There are then more samples than were written, each with some of its
parts: a KeyError at best; with `missing_is_error=False` or `.get` no sign of it at all.

## What to do
Write the archive again in the order of the keys: `tar --sort=name`, or sort before writing. The command below does so
from the archive itself and keeps the order of the samples.

## How sure it is
Certain: the same key was met twice, with other parts. A key that comes back with the same parts is a duplicate, not
this.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad, base
from ...analysis.data_wording import again, finding, named
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.printable import printable, quoted
from ...wording.text import many
from ..rule import rule

SORT = (
    'import sys, tarfile; old = tarfile.open(sys.argv[1]); new = tarfile.open(sys.argv[2], "w:{}"); first = {{}}; '
    'key = lambda m: first.setdefault(m.name[: m.name.find(".", m.name.rfind("/") + 1)], len(first)); '
    "[new.addfile(m, old.extractfile(m)) for m in sorted(old, key=key)]; new.close()"
)
MODES = {"": "", "gzip": "gz", "bzip2": "bz2", "xz": "xz"}


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("data",),
    outranks=("worker-python-exception", "uncaught-exception"),
    yields_to=("handler-drops-shard-rest", "shard-read-errors"),
)
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "tar-apart")
    if found:
        total, name = sum(one.total for one in found), named([one.file for one in found], "archive")
        key = printable(found[0].first.sample)
        yield finding(
            case,
            found,
            f"In {name} the parts of {many(total, 'sample')} do not stand together, first those of {key}: webdataset "
            f"makes two incomplete samples of {'it' if total == 1 else 'each'}.",
            _remedy(case, found),
        )


def _remedy(case: Case, found: list[Bad]) -> Remedy:
    file, text = found[0].file, "Write these archives again with their members in the order of the keys"
    text += " (`tar --sort=name`, or sort before writing)."
    if file.compression not in MODES:
        return Remedy(text, again(case, [file]))
    code = SORT.format(MODES[file.compression])
    copy = f"python -c {quoted(code)} {quoted(file.path)} {quoted(f'sorted-{base(file.path)}')}"
    return Remedy(f"{text} The first command makes a sorted copy of one.", [copy, *again(case, [file])])
