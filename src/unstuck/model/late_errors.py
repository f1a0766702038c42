"""CUDA errors that are reported later than they happen: the line is not known, and how to learn it."""

from __future__ import annotations

from ..wording.printable import quoted_line
from .evidence import Evidence
from .finding import Remedy
from .phrases import short
from .places import Place
from .recorded import Failure
from .torch_errors import DEVICE_ASSERT, LAUNCH_BLOCKING, TorchError, errors_of

DAMAGED = "uncorrectable ECC error"
ASSERTED = (
    "A device-side assert is mostly an index or a label out of range: check there that labels are below the number of "
    "classes and indices below the size they index. On the CPU the same batch raises at its own line."
)


def late(failure: Failure | None) -> TorchError | None:
    """The error of a kernel, which is reported wherever the program has got to by then."""
    if failure is None:
        return None
    return next((one for one in errors_of(failure) if one.late), None)


def at(failure: Failure, place: Place | None) -> str:
    """` at train.py:12`; `, reported at train.py:12` where that need not be the line that failed."""
    if place is None:
        return ""
    return f", reported at {short(place)}" if late(failure) is not None else f" at {short(place)}"


def warned(failure: Failure) -> list[str]:
    """For the evidence: what stands below the first line of the message."""
    error = late(failure)
    if error is None:
        return []
    found = [f'torch adds: "{error.warning}"'] if error.warning else []
    return [*found, *([f"the GPU says: Assertion `{error.assertion}` failed"] if error.assertion else [])]


def again(evidence: Evidence, error: TorchError) -> Remedy:
    """How the line is found."""
    if error.error.startswith(DAMAGED):
        return Remedy(
            "The memory of the GPU is damaged, not the program: run on another GPU, and look at this one's errors.",
            ["nvidia-smi -q -d ECC"],
        )
    setting = error.blocking or LAUNCH_BLOCKING
    text = (
        f"Run it again with {setting}: each kernel is then waited for, and the traceback ends at the line that failed. "
        "It is slower: use it for this search only."
    )
    return Remedy(f"{text} {ASSERTED}" if error.kind == DEVICE_ASSERT else text, [with_setting(evidence, setting)])


def with_setting(evidence: Evidence, setting: str) -> str:
    """The run's own command with a variable in front; where it is not known, the variable alone."""
    command = quoted_line(evidence.run.command)
    return f"{setting} {command}" if command else f"export {setting}"
