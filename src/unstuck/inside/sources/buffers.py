"""Recognises a loop that fills a buffer, `while len(buffer) < needed:`, in the code that calls a data library.

How full the buffer is and how much it needs is then told as if the user's code had said so by `unstuck.progress`. Only
lengths of Python's own lists, deques and arrays are asked for: nothing of the user's is run.

The loop is found in the bytecode of Python 3.10 and later: instructions differ, what they push and take does not.
"""

from __future__ import annotations

import array
import collections
import dis
from types import CodeType, FrameType
from typing import Any, NamedTuple

from ..api import progress
from ..core.frames import variables
from ..core.guard import is_library
from ..core.objects import attributes_of
from ..core.recorder import Recorder, clock

SOON = 50_000_000  # nanoseconds between two looks
UP = 12  # calls up the stack
CODES = 512  # whose analysis is kept
SHOWN = 4  # buffers: each takes a place on the board
HELD = (list, collections.deque, array.array)

LONGEST = 24  # instructions of a condition
MOST = 20_000  # bytes of code: a larger function is not looked at
ARITHMETIC = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__}
OLD = {"BINARY_ADD": "+", "BINARY_SUBTRACT": "-", "BINARY_MULTIPLY": "*", "BINARY_FLOOR_DIVIDE": "//"}
NOISE = ("CACHE", "PRECALL", "EXTENDED_ARG", "NOP", "PUSH_NULL", "RESUME", "COPY_FREE_VARS", "NOT_TAKEN", "TO_BOOL")
LOCAL = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_CLASSDEREF")
PAIR = ("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
LESS = ("<", "<=", "!=")
UNKNOWN: Any = object()

Term = tuple[
    Any, ...
]  # ("local", name), ("global", name), ("attribute", term, name), ("const", value), ("len", term), …


class Buffers:
    """Of this process."""

    def __init__(self) -> None:
        self.due = 0
        self._known: dict[CodeType, tuple[Filling, ...]] = {}
        self._shown: dict[str, tuple[Recorder | None, int, int]] = {}

    def look(self, recorder: Recorder, frame: FrameType | None) -> None:
        now = clock()
        if now < self.due:
            return
        self.due = now + SOON
        for _ in range(UP):
            if frame is None:
                break
            self._tell(recorder, frame, self._of(frame.f_code))
            frame = frame.f_back
        recorder.cost(clock() - now)

    def _of(self, code: CodeType) -> tuple[Filling, ...]:
        found = self._known.get(code)
        if found is None:
            found = () if is_library(code.co_filename) else fillings(code)
            if len(self._known) < CODES:
                self._known[code] = found
        return found

    def _tell(self, recorder: Recorder, frame: FrameType, found: tuple[Filling, ...]) -> None:
        """Of the innermost loop that the call is in. What is as before is not told again."""
        around = [one for one in found if one.begin <= frame.f_lasti <= one.end]
        if not around:
            return
        one = min(around, key=lambda each: each.end - each.begin)
        held, need = _value_of(one.buffer, frame), _value_of(one.need, frame)
        if type(held) not in HELD or type(need) is not int or need <= 0:
            return
        now = recorder, len(held), need
        if self._shown.get(one.name) != now and (one.name in self._shown or len(self._shown) < SHOWN):
            self._shown[one.name] = now
            progress(one.name, len(held), need, _unit(held))


def _unit(held: Any) -> str:
    """By what it holds: single numbers are tokens, sequences of them are documents."""
    if type(held) is array.array:
        return "tokens"
    try:
        first = held[0]
    except IndexError:
        return "items"
    if type(first) is int:
        return "tokens"
    return "documents" if type(first) in (list, tuple, str, array.array) else "items"


class Filling(NamedTuple):
    """A loop that goes on until the buffer is as long as needed."""

    buffer: Term
    need: Term
    name: str
    begin: int  # of the loop in the code, and its end
    end: int


def fillings(code: CodeType) -> tuple[Filling, ...]:
    """Those of one function, each once: Python writes a loop's condition down twice."""
    if "len" not in code.co_names or len(code.co_code) > MOST:
        return ()
    steps = [part for one in dis.get_instructions(code) if one.opname not in NOISE for part in _apart(one)]
    compared = [at for at, one in enumerate(steps) if _compares(one)]
    sure, found = ([_filling(steps, at, jump(steps, at)) for at in compared] for jump in (_near, _to_its_line))
    known = {(one.buffer, one.need): one for one in (*found, *sure) if one is not None}
    return tuple(known.values())


def _apart(one: dis.Instruction) -> list[dis.Instruction]:
    """Python 3.13 may load two locals by one instruction."""
    if one.opname not in PAIR:
        return [one]
    return [one._replace(opname="LOAD_FAST", argval=name) for name in one.argval]


def _compares(one: dis.Instruction) -> bool:
    return one.opname == "COMPARE_OP" and _operator(one) in (*LESS, ">", ">=")


def _operator(one: dis.Instruction) -> str:
    return str(one.argrepr).removeprefix("bool(").removesuffix(")")


def _filling(steps: list[dis.Instruction], at: int, back: dis.Instruction | None) -> Filling | None:
    if back is None:
        return None
    right, at_left = _term(steps, at - 1)
    left, _ = _term(steps, at_left)
    if _operator(steps[at]) not in LESS:
        left, right = right, left
    if left is None or right is None or left[0] != "len" or left[1][0] not in ("local", "global", "attribute"):
        return None
    begin = min(steps[at].offset, back.argval)
    return Filling(left[1], right, str(left[1][-1]), begin, max(steps[at].offset, back.offset))


def _near(steps: list[dis.Instruction], at: int) -> dis.Instruction | None:
    """A loop's condition is written down again at its end: the jump behind it, or the next, goes back to its body."""
    return next((one for one in steps[at + 1 : at + 3] if _goes_back(one)), None)


def _to_its_line(steps: list[dis.Instruction], at: int) -> dis.Instruction | None:
    """From Python 3.14 on it is not: a jump further on goes back to the condition. So does that of `if … continue`."""
    begins = {one.offset for one in steps[max(at - LONGEST, 0) : at] if one.starts_line}
    return next((one for one in reversed(steps[at + 1 :]) if _goes_back(one) and one.argval in begins), None)


def _goes_back(one: dis.Instruction) -> bool:
    return "JUMP" in one.opname and isinstance(one.argval, int) and one.argval < one.offset


def _term(steps: list[dis.Instruction], at: int) -> tuple[Term | None, int]:  # noqa: PLR0911  (one for each kind)
    """What the instructions up to this one push as one value, and where those before them end."""
    if at < 0:
        return None, at
    one = steps[at]
    name = one.opname
    if name in LOCAL or name == "LOAD_NAME":
        return ("global" if name == "LOAD_NAME" else "local", one.argval), at - 1
    if name == "LOAD_GLOBAL":
        return ("global", one.argval), at - 1
    if name in ("LOAD_CONST", "LOAD_SMALL_INT"):
        return ("const", one.argval), at - 1
    if name == "LOAD_ATTR":
        inner, before = _term(steps, at - 1)
        return (None if inner is None else ("attribute", inner, one.argval)), before
    if name == "BINARY_OP" or name in OLD:
        return _arithmetic(steps, at, OLD.get(name) or str(one.argrepr))
    if name in ("CALL", "CALL_FUNCTION") and one.arg == 1:
        inner, before = _term(steps, at - 1)
        called, before = _term(steps, before)
        return (("len", inner) if called == ("global", "len") and inner is not None else None), before
    return None, at - 1


def _arithmetic(steps: list[dis.Instruction], at: int, operator: str) -> tuple[Term | None, int]:
    right, before = _term(steps, at - 1)
    left, before = _term(steps, before)
    if left is None or right is None or operator not in ARITHMETIC:
        return None, before
    return ("number", operator, left, right), before


def _value_of(term: Term, frame: FrameType) -> Any:
    """Its value in this call. No descriptor, no `__getattr__` and no arithmetic but that of plain numbers is run."""
    kind = term[0]
    if kind == "const":
        return term[1]
    if kind == "global":
        return frame.f_globals.get(term[1], UNKNOWN)
    if kind == "local":
        return variables(frame).get(term[1], UNKNOWN)
    if kind == "attribute":
        return attributes_of(_value_of(term[1], frame)).get(term[2], UNKNOWN)
    if kind == "number":
        left, right = _value_of(term[2], frame), _value_of(term[3], frame)
        plain = type(left) is int and type(right) is int and (right or term[1] != "//")
        return ARITHMETIC[term[1]](left, right) if plain else UNKNOWN
    return UNKNOWN


buffers = Buffers()
