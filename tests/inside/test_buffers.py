"""A loop that fills a buffer is recognised in many shapes, and nothing of the user's is run for it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from running import INSIDE, Run
from tiny_texts import DOCUMENTS

from pythons import python

pytestmark = pytest.mark.scenario

Recorded = Callable[..., Run]

TOKENS = """
import collections
def batches():
    buffer = collections.deque()
    needed = 20 * 3 + 1
    while True:
        while len(buffer) < needed:
            for one in TOKENIZER.encode_batch(["good morning"] * 4):
                buffer.extend(one.ids)
            time.sleep(0.06)
        yield [buffer.popleft() for _ in range(needed)]
"""
ATTRIBUTE = """
class Loader:
    def __init__(self):
        self.tokens, self.limit = [], 61
    def __iter__(self):
        while self.limit > len(self.tokens):
            self.tokens += ENCODING.encode_ordinary("good day")
            time.sleep(0.06)
        yield self.tokens
def batches():
    return iter(Loader())
"""
DOCUMENTS_KEPT = """
def batches(buffer_size=61):
    kept = []
    def refill():
        for one in TOKENIZER.encode_batch(["good morning"] * 8):
            kept.append(one.ids)
        time.sleep(0.06)
    while True:
        row = []
        while len(row) < 33:
            while len(kept) < buffer_size:
                refill()
            row += kept.pop()
        yield row
"""
ROWS = """
B, T = 20, 3
def documents():
    file = pq.ParquetFile(PATH)
    while True:
        for group in range(file.num_row_groups):
            time.sleep(0.06)
            yield file.read_row_group(group).column("text").to_pylist()
def batches():
    tokens, stream = [], documents()
    while len(tokens) < B * T + 1:
        tokens += [ord(letter) for text in next(stream) for letter in text or ""][:9]
    yield tokens
"""


@pytest.mark.parametrize(
    ("shape", "name", "unit"),
    [(TOKENS, "buffer", "tokens"), (ATTRIBUTE, "tokens", "tokens"), (DOCUMENTS_KEPT, "kept", "documents"),
     (ROWS, "tokens", "tokens")],
    ids=["a deque", "an attribute", "a closure, inside of another", "a reader's caller"],
)  # fmt: skip
def test_have_and_need_are_told(recorded: Recorded, shape: str, name: str, unit: str) -> None:
    run = recorded(DOCUMENTS + "import time\n" + shape + "next(batches())\n").succeeded()
    (told,) = run.main.process().progress
    assert (told.name, told.need, told.unit) == (name, 61, unit)
    assert 30 < told.have < 61


def test_a_length_of_the_users_own_is_not_asked_for(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
class Buffer(list):
    def __len__(self):
        asked.append(1)
        return list.__len__(self)
asked, buffer = [], Buffer()
def fill():
    while len(buffer) < 5:
        buffer.append(TOKENIZER.encode("good"))
fill()
print(len(asked))
"""
    ).succeeded()
    assert run.out == "6\n"
    assert run.main.process().progress == []


def test_a_look_keeps_no_local_alive(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
import gc, weakref
gc.disable()
class Big: pass
def fill():
    buffer, big = [], Big()
    alive = weakref.ref(big)
    while len(buffer) < 2:
        buffer.append(TOKENIZER.encode("good").ids)
        big = None
        print(alive())
fill()
"""
    ).succeeded()
    assert run.out == "None\nNone\n"


SHAPES = """
import sys, types
module = types.ModuleType("parts")
module.__path__ = [sys.argv[1]]
sys.modules["parts"] = module
from parts.sources.buffers import fillings

def packed(size):
    kept = []
    def refill():
        frame = sys._getframe(1)
        around = [one for one in fillings(frame.f_code) if one.begin <= frame.f_lasti <= one.end]
        found.append(min(around, key=lambda one: one.end - one.begin).name)
        kept.append([1] * 5)
    while True:
        row = []
        while len(row) < 9:
            while len(kept) < size:
                refill()
            row += kept.pop(0)
        yield row

def no_loop(buffer):
    if len(buffer) < 3:
        return 1

def another(buffer):
    while buffer and len(buffer[0]) < 3:
        pass

found = []
next(packed(3))
print(found == ["kept"] * 4, fillings(no_loop.__code__), fillings(another.__code__))
"""


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_the_innermost_loop_is_found_on_every_python(version: str) -> None:
    run = subprocess.run([python(version), "-c", SHAPES, str(INSIDE)], capture_output=True, text=True, check=False)

    assert run.stdout == "True () ()\n", run.stderr
