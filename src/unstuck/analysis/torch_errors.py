"""What torch, NCCL, gloo and CUDA say when a rank fails, taken apart."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..evidence.basics import Place
from ..evidence.finding import Remedy
from ..evidence.process import Failure
from ..wording.printable import quoted_line
from ..wording.text import short
from .case import Case

# What torch's own words say about a GPU without memory: the numbers in its message, as bytes.
OUT = re.compile(r"\b(?:CUDA|HIP|XPU)(?: error:)? out of memory")
SIZE = r"([\d.]+) (bytes|KiB|MiB|GiB|TiB)"
UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# Until torch 2.0: "(GPU 0; 10.92 GiB total capacity; 8.57 GiB already allocated; 1 GiB free; 9 GiB reserved in …".
OLD = re.compile(
    rf"GPU (\d+); {SIZE} total capacity; {SIZE} already allocated; {SIZE} free; {SIZE} (?:reserved|cached)"
)
TRIED = re.compile(rf"Tried to allocate {SIZE}")
CARD = re.compile(rf"GPU (\d+) has a total capaci?ty of {SIZE} of which {SIZE} is free")  # 2.1 wrote "capacty"
PROCESS = re.compile(rf"(?:Process (\d+)|this process) has {SIZE} memory in use")
ALLOWED = re.compile(rf"{SIZE} allowed")
ALLOCATED = re.compile(rf"{SIZE} is allocated by PyTorch")
RESERVED = re.compile(rf"{SIZE} is reserved by PyTorch but unallocated")
SETTING = re.compile(r"PYTORCH_\w*ALLOC_CONF")


class Shortage(msgspec.Struct, frozen=True):
    """Numbers of one message. None: it does not say."""

    tried: int | None = None
    gpu: int | None = None
    total: int | None = None
    free: int | None = None
    allocated: int | None = None  # by torch, in use
    reserved: int | None = None  # by torch, and not in use: pieces between what is
    own: int | None = None  # of this process in all
    others: dict[int, int] = {}  # by pid
    allowed: int | None = None  # what the program has limited itself to
    setting: str = "PYTORCH_CUDA_ALLOC_CONF"  # torch 2.13 knows another name too; older ones only this


def is_out_of_memory(text: str) -> bool:
    return OUT.search(text) is not None


def shortage(text: str) -> Shortage:
    old, card, setting = OLD.search(text), CARD.search(text), SETTING.search(text)
    said = Shortage(
        tried=_size(TRIED.search(text)),
        allocated=_size(ALLOCATED.search(text)),
        reserved=_size(RESERVED.search(text)),
        allowed=_size(ALLOWED.search(text)),
        setting=setting[0] if setting is not None else Shortage().setting,
    )
    if old is not None:
        total, allocated, free, reserved = (_bytes(old[at], old[at + 1]) for at in (2, 4, 6, 8))
        numbers = {"total": total, "allocated": allocated, "free": free, "reserved": reserved - allocated}
        return msgspec.structs.replace(said, gpu=int(old[1]), **numbers)
    if card is not None:
        total, free = (_bytes(card[at], card[at + 1]) for at in (2, 4))
        said = msgspec.structs.replace(said, gpu=int(card[1]), total=total, free=free)
    return _with_processes(said, text)


def _with_processes(said: Shortage, text: str) -> Shortage:
    """In a container torch does not know its own pid as the driver does, and names itself like any other process."""
    own, others = None, {}
    for match in PROCESS.finditer(text):
        if match[1] is None:
            own = _bytes(match[2], match[3])
        else:
            others[int(match[1])] = _bytes(match[2], match[3])
    at_least = (said.allocated or 0) + (said.reserved or 0)
    if own is None:
        itself = min((pid for pid in others if others[pid] >= at_least), key=lambda pid: others[pid], default=None)
        own = others.pop(itself) if itself is not None else None
    return msgspec.structs.replace(said, own=own, others=others)


def _size(match: re.Match[str] | None) -> int | None:
    return _bytes(match[1], match[2]) if match is not None else None


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * UNITS[unit])


# What torch, NCCL, gloo and CUDA say when a rank fails, taken apart.
#
# The texts that are known here are kept in tests/texts, each with the thread or the source that it comes from and with
# what has to be concluded from it. None was seen on a GPU of ours.
TIMEOUT = "timeout"  # a collective, or a wait for one, took longer than its group allows
NOT_MET = "not met"  # the same where the ranks were to meet, before there was a group
DUPLICATE_GPU = "duplicate gpu"
OUT_OF_MEMORY = "out of memory"
DEVICE_ASSERT = "device assert"
CUDA_ERROR = "cuda error"
REMOTE_ERROR = "remote error"  # a peer is gone, or cannot be reached any more
CUDA_IN_NCCL = "cuda error in nccl"
SYSTEM_ERROR = "system error"
INTERNAL_ERROR = "internal error"
INVALID_USAGE = "invalid usage"
ABORTED = "aborted"  # the communicator was, and the text does not say why
HEARTBEAT = "heartbeat"  # torch's watchdog is blocked itself, in a call of CUDA or NCCL or for the GIL
FAILED = "failed or timed out"  # the text leaves open which of the two
PEER_GONE = (REMOTE_ERROR, ABORTED)  # what ended this rank is the end of another
TIMED_OUT = (TIMEOUT, FAILED)

# In this order: a text may hold several, and what gives a reason counts more than what only tells that there is one.
KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        TIMEOUT,
        re.compile(
            r"Timed out waiting \d+ms for (?:recv|send) operation|Application timeout caused pair closure"
            r"|failed to pass monitoredBarrier|Watchdog caught collective operation timeout|timed out in blocking wait"
            r"|Timeout at NCCL work|Received a (?:dump signal due to a collective timeout|timeout signal)"
            r"|NCCL operation timed out|NCCL timeout in communicator initialization"
        ),
    ),
    (
        NOT_MET,
        re.compile(
            r"waiting for clients\. \d+/\d+ clients joined"
            r"|client socket has timed out.*trying to connect to \([^,]+, \d+\)|^[Ww]ait timeout"
        ),
    ),
    (DUPLICATE_GPU, re.compile(r"Duplicate GPU detected")),
    (OUT_OF_MEMORY, OUT),
    (
        DEVICE_ASSERT,
        re.compile(r"device-side assert(?:ion)? triggered|block: \[[\d,]+\], thread: \[[\d,]+\] Assertion `"),
    ),
    (CUDA_ERROR, re.compile(r"(?:CUDA|HIP) error: |Triton Error \[(?:CUDA|HIP)\]: ")),
    # gloo names its file; a user's own HTTP error says the same without it. NCCL may report a peer that is gone as an
    # error of the system or of its own (NVIDIA/nccl#795): what it says of the connection counts.
    (
        REMOTE_ERROR,
        re.compile(
            r"/gloo/.*(?P<words>Connection closed by peer|Connection reset by peer|Broken pipe|Connection refused"
            r"|Socket closed)"
            r"|remote process exited or there was a network error|remote process exit|ncclRemoteError"
            r"|Did the remote server crash or exit"
            r"|Last error:\s*[^\n]*?(?P<peer>Connection closed by remote peer|Connection reset by peer|Broken pipe"
            r"|Connection refused)",
            re.DOTALL,
        ),
    ),
    (CUDA_IN_NCCL, re.compile(r"ncclUnhandledCudaError|unhandled cuda error")),
    (SYSTEM_ERROR, re.compile(r"ncclSystemError|unhandled system error")),
    (INTERNAL_ERROR, re.compile(r"ncclInternalError")),
    (INVALID_USAGE, re.compile(r"ncclInvalidUsage|ncclInvalidArgument")),
    (ABORTED, re.compile(r"NCCL communicator was aborted")),
    (
        HEARTBEAT,
        re.compile(
            r"ProcessGroupNCCL's watchdog got stuck|Heartbeat monitor timed out!|Could not acquire GIL within \d+ ms"
            r"|due to ProcessGroupNCCL watchdog hang"
        ),
    ),
    (
        FAILED,
        re.compile(
            r"NCCL operations have failed or timed out|we are taking the entire process down"
            r"|detected by watchdog at work|Observed flight recorder dump signal"
            r"|watchdog thread terminated with exception|due to collective timeout or exception"
        ),
    ),
)

WORK = re.compile(
    r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+),(?: NumelIn=\d+, NumelOut=\d+,)? Timeout\(ms\)=(\d+)\)"
    r"(?: ran for (\d+) milliseconds)?"
)
AT_WORK = re.compile(r"(?:Timeout at NCCL work|detected by watchdog at work(?: sequence id)?): (\d+)")
PROGRESS = re.compile(r"last enqueued (?:NCCL )?work: (-?\d+), last completed (?:NCCL )?work: (-?\d+)", re.IGNORECASE)
WAITED = re.compile(r"waiting (\d+)ms for|monitoredBarrier in (\d+) ms")
NAMED = re.compile(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier")
JOINED = re.compile(r"(\d+)/(\d+) clients joined")
ADDRESS = re.compile(r"trying to connect to \(([^,]+), (\d+)\)")
# "[rank12]:" is the rank of the run; "[PG ID 13 PG GUID 143 Rank 0]" and "[Rank 0]" are ranks within a group.
RANK = re.compile(r"\[rank(\d+)\]:")
RANK_IN_GROUP = re.compile(r"\bRank (\d+)\]|aborted on rank (\d+)")
GROUP = re.compile(r"\[PG(?: ID)? (\d+) ")
TOLD_BY = re.compile(r"signal (?:due to a collective timeout )?from\s+rank (\d+)")
STUCK = re.compile(r"watchdog got stuck for (\d+) ?seconds")
SAME_GPU = re.compile(r"Duplicate GPU detected : rank (\d+) and rank (\d+) both on CUDA device ([0-9a-f]+)")
LAST_ERROR = re.compile(r"Last error:[ \t]*\n?(?:\[rank\d+\]:)?[ \t]*([^\n]*)")
DETAILS = re.compile(r"run with (NCCL_DEBUG=\w+) for details")
ERROR = re.compile(r"(?:(?:CUDA|HIP) error|Triton Error \[(?:CUDA|HIP)\]): ([^\n]+)|Cuda failure (?:\d+ )?'([^']+)'")
ASSERTION = re.compile(r"Assertion `([^`]+)` failed")
WARNING = re.compile(r"\w+ kernel errors might be asynchronously reported[^\n]*")
BLOCKING = re.compile(r"For debugging consider passing (\w+=\d+)")
CHECKED = re.compile(r"(?:CUDA|HIP) error: ")  # by torch itself, which adds its warning unless launches block

# Errors of a kernel, which runs later than it was launched: the list of torch's own get_cuda_async_error_suffix.
LATER = (
    "device-side assert",
    "an illegal memory access was encountered",
    "unspecified launch failure",
    "an illegal instruction was encountered",
    "misaligned address",
)
# Errors of the call itself. Older versions of torch add their warning to these, too (until pytorch#181011).
AT_ONCE = (
    "out of memory",
    "no kernel image is available",
    "invalid argument",
    "invalid configuration argument",
    "invalid device",
    "initialization error",
    "no CUDA-capable device",
    "CUDA driver version is insufficient",
    "too many resources requested",
    "operation not",
)
LAUNCH_BLOCKING = "CUDA_LAUNCH_BLOCKING=1"


class TorchError(msgspec.Struct, frozen=True, omit_defaults=True):
    """One text of one rank. None, 0 or empty: it does not say."""

    kind: str
    words: str  # by which it was recognised, as they stand there
    rank: int | None = None  # who says so: of the run if the line begins with it, else within its group
    group: int | None = None  # the number of the process group on that rank; sequence numbers count within it
    sequence: int | None = None
    operation: str = ""
    timeout_ms: int | None = None
    ran_ms: int | None = None
    last_enqueued: int | None = None
    last_completed: int | None = None
    told_by: int | None = None  # the rank that has timed out, where this one was only told so
    absent: list[int] = []  # ranks that gloo says did not come
    joined: int | None = None
    world: int | None = None
    address: str = ""
    stuck_s: int | None = None  # for which the watchdog was
    same_gpu: tuple[int, int] | None = None  # ranks within the group
    device: str = ""  # as NCCL writes it: the PCI address without its zeros and colons
    last_error: str = ""  # of NCCL
    details: str = ""  # the setting with which NCCL says more, in its own words
    error: str = ""  # of CUDA
    assertion: str = ""
    warning: str = ""  # torch's, that the line may be wrong
    blocking: str = ""  # the setting that torch names for it
    by_torch: bool = False  # torch has checked, and would warn

    @property
    def late(self) -> bool:
        """Whether it was reported at another line than the one that failed, as far as can be known.

        With CUDA_LAUNCH_BLOCKING=1 torch leaves its warning out: then the line is right.
        """
        if self.warning:
            return bool(self.error) and not self.error.startswith(AT_ONCE)
        return self.error.startswith(LATER) and not self.by_torch


def torch_error(text: str) -> TorchError | None:
    """None: these are no words that are known here."""
    for kind, pattern in KINDS:
        match = pattern.search(text)
        if match is not None:
            named = [part for part in match.groupdict().values() if part]
            return TorchError(kind, named[0] if named else match[0].strip(), **_facts(text))
    return None


def errors_of(failure: Failure) -> list[TorchError]:
    """Of an exception, and of what led to it."""
    texts = [failure.message, *(message for _, message in failure.causes)]
    return [found for text in texts if (found := torch_error(text)) is not None]


def _facts(text: str) -> dict[str, Any]:
    return {**_work(text), **_whose(text), **_meeting(text), **_nccl(text), **_cuda(text)}


def _work(text: str) -> dict[str, Any]:
    work, at, progress, waited = (one.search(text) for one in (WORK, AT_WORK, PROGRESS, WAITED))
    limit = work[3] if work is not None else (waited[1] or waited[2]) if waited is not None else None
    return {
        "sequence": _number(work[1] if work is not None else at[1] if at is not None else None),
        "operation": work[2] if work is not None else "",
        "timeout_ms": _number(limit),
        "ran_ms": _number(work[4]) if work is not None else None,
        "last_enqueued": _number(progress[1]) if progress is not None else None,
        "last_completed": _number(progress[2]) if progress is not None else None,
    }


def _whose(text: str) -> dict[str, Any]:
    rank, inner, group, told, stuck = (one.search(text) for one in (RANK, RANK_IN_GROUP, GROUP, TOLD_BY, STUCK))
    return {
        "rank": _number(rank[1] if rank is not None else (inner[1] or inner[2]) if inner is not None else None),
        "group": _number(group[1]) if group is not None else None,
        "told_by": _number(told[1]) if told is not None else None,
        "stuck_s": _number(stuck[1]) if stuck is not None else None,
    }


def _meeting(text: str) -> dict[str, Any]:
    named, joined, address = (one.search(text) for one in (NAMED, JOINED, ADDRESS))
    return {
        "absent": [int(one) for one in named[1].split(",") if one.strip()] if named is not None else [],
        "joined": _number(joined[1]) if joined is not None else None,
        "world": _number(joined[2]) if joined is not None else None,
        "address": f"{address[1]}:{address[2]}" if address is not None else "",
    }


def _nccl(text: str) -> dict[str, Any]:
    same, last, details = (one.search(text) for one in (SAME_GPU, LAST_ERROR, DETAILS))
    return {
        "same_gpu": (int(same[1]), int(same[2])) if same is not None else None,
        "device": same[3] if same is not None else "",
        "last_error": last[1].strip() if last is not None else "",
        "details": details[1] if details is not None else "",
    }


def _cuda(text: str) -> dict[str, Any]:
    error, assertion, warning, blocking = (one.search(text) for one in (ERROR, ASSERTION, WARNING, BLOCKING))
    return {
        "error": (error[1] or error[2]).strip() if error is not None else "",
        "assertion": assertion[1] if assertion is not None else "",
        "warning": warning[0].strip() if warning is not None else "",
        "blocking": blocking[1] if blocking is not None else "",
        "by_torch": CHECKED.search(text) is not None,
    }


def _number(text: str | None) -> int | None:
    return int(text) if text is not None else None


# CUDA errors that are reported later than they happen: the line is not known, and how to learn it.
DAMAGED = "uncorrectable ECC error"
ASSERTED = "Device-side asserts: mostly a label or index out of range."


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


def again(case: Case, error: TorchError) -> Remedy:
    """How the line is found."""
    if error.error.startswith(DAMAGED):
        return Remedy(
            "Run on another GPU: the memory of this one is damaged, the program is not at fault.",
            ["nvidia-smi -q -d ECC"],
        )
    setting = error.blocking or LAUNCH_BLOCKING
    text = f"Run it again with {setting}: the traceback then ends at the line that failed."
    return Remedy(f"{text} {ASSERTED}" if error.kind == DEVICE_ASSERT else text, [with_setting(case, setting)])


def with_setting(case: Case, setting: str) -> str:
    """The run's own command with a variable in front; where it is not known, the variable alone."""
    command = quoted_line(case.run.command)
    return f"{setting} {command}" if command else f"export {setting}"
