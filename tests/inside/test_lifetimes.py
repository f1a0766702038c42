"""Nothing of the user's lives longer because it was looked at, and what is his stays as he left it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import BEGIN, BOOTSTRAP, Run

sys.path.insert(0, str(Path(__file__).parents[1]))
from pythons import python

Recorded = Callable[..., Run]
VERSIONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]

SHARDS = """
import weakref
alive = weakref.WeakSet()
class Shard:  # stands for a table of some GiB
    def __init__(self):
        alive.add(self)
"""
# Each looks at a call in the way that a part of the recorder does; the shard it had then is gone a moment later.
LOOKS = {
    "a generator": """
from _unstuck_inside.loading.shuffle_buffers import largest
def read():
    for number in range(3):
        shard, buffer = Shard(), [object() for _ in range(80)]
        yield number
        del shard
stream = read()
found = []
for number in stream:
    found.append((len(alive), largest(stream, frozenset())["held"]))
print(found)
""",
    "a loop that fills a buffer": """
import sys
from _unstuck_inside.sources.buffers import buffers
from _unstuck_inside.core.process import process
def fill():
    found, buffer, needed = [], [], 3
    while len(buffer) < needed:
        shard = Shard()
        buffer.append(shard.__class__)
        buffers.due = 0
        buffers.look(process.recording(1), sys._getframe())
        del shard
        found.append(len(alive))
    return found
print(fill(), [one[1] for one in buffers._shown.values()])
""",
    "a list of files": """
import sys
from _unstuck_inside.sources.files import _listed
def read():
    found, names = [], ["a", "b", "c"]
    for name in names:
        shard = Shard()
        place = _listed(name, sys._getframe())
        del shard
        found.append((len(alive), place))
    return found
print(read())
""",
    "a traceback": """
import sys
from _unstuck_inside.failures.exceptions import describe
def load(path):
    raise ValueError(path)
def read():
    found = []
    for number in range(3):
        shard = Shard()
        try:
            load("/etc/passwd")
        except ValueError as error:
            known = describe(error, "fetch", {"position": 0})
        del shard
        found.append((len(alive), known["paths"]))
    return found
print(read())
""",
    "a handler of webdataset's": """
import sys
from _unstuck_inside.core.process import process
from _unstuck_inside.sources.shards import part_of
from _unstuck_inside.sources.webdataset import Walk
def tar_file_iterator(url):
    found, walk = [], Walk(part_of("webdataset", None), grouped=True)
    for number in range(3):
        shard = Shard()
        walk.fails(ValueError("x"), print, True, sys._getframe(), 0)
        del shard
        found.append((len(alive), walk.part.failed))
    return found
process.recording(1)
print(tar_file_iterator("/data/x.tar"))
""",
}
SEEN = {
    "a generator": "[(1, 80), (1, 80), (1, 80)]",
    "a loop that fills a buffer": "[0, 0, 0] [3]",
    "a list of files": "[(0, '\\n1\\n3'), (0, '\\n2\\n3'), (0, '\\n3\\n3')]",
    "a traceback": "[(0, ['/etc/passwd']), (0, ['/etc/passwd']), (0, ['/etc/passwd'])]",
    "a handler of webdataset's": "[(0, 1), (0, 2), (0, 3)]",
}


def run_in(version: str, folder: Path, program: str) -> str:
    """In a recorded process of that Python, whose torch is empty: the real one is not to be had for each of them."""
    (folder / "torch.py").touch()
    (folder / "recordings").mkdir()
    known = {name: value for name, value in os.environ.items() if not name.startswith(("UNSTUCK", "PYTHON"))}
    known |= {"PYTHONPATH": f"{BOOTSTRAP}:{folder}", "UNSTUCK_RECORDINGS": str(folder / "recordings")}
    (folder / "train.py").write_text(f"import torch\n{SHARDS}{program}")
    ended = subprocess.run(
        [python(version), "train.py"], env=known, cwd=folder, capture_output=True, text=True, check=False
    )
    assert not ended.stderr, ended.stderr
    return ended.stdout.rstrip("\n")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("what", LOOKS)
def test_no_local_variable_lives_longer_because_it_was_looked_at(version: str, what: str, tmp_path: Path) -> None:
    assert run_in(version, tmp_path, LOOKS[what]) == SEEN[what]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_locals_exec_and_a_debugger_have_of_a_call_stays_theirs(version: str, tmp_path: Path) -> None:
    program = """
import sys
from _unstuck_inside.core.frames import variables

def keeps(size):
    mine = locals()
    del mine["size"]
    later = 1
    variables(sys._getframe())
    return mine

def keeps_by_another_name(size, get=locals):
    mine = get()
    variables(sys._getframe())
    return sorted(mine)

def makes(size):
    exec("made = 5")
    before = eval("locals().get('made')")
    variables(sys._getframe())
    return before == eval("locals().get('made')")

def debugged(size):
    def trace(frame, event, argument):
        if event == "line" and frame.f_code.co_name == "inner":
            variables(frame)  # as a command at a debugger's prompt would bring about
        return trace
    def inner():
        one = 1
        two = 2
        return one + two
    sys.settrace(trace)
    try:
        return inner()
    finally:
        sys.settrace(None)

def plain(size):
    return variables(sys._getframe())

print(keeps(1), "size" in keeps_by_another_name(2), makes(3), debugged(4), plain(5))
at_the_top = 1
print("at_the_top" in variables(sys._getframe()), at_the_top)
"""
    assert run_in(version, tmp_path, program) == "{} True True 3 {'size': 5}\nTrue 1"


def test_a_stream_behind_a_loader_keeps_one_shard(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + SHARDS
        + """
class Stream(IterableDataset):
    def __iter__(self):
        for _ in range(4):
            shard, shuffled = Shard(), [torch.zeros(2) for _ in range(80)]
            for _ in range(8):
                yield torch.zeros(2)
            del shard

most = 0
for batch in DataLoader(Stream(), batch_size=2):
    most = max(most, len(alive))
print(most)
"""
    ).succeeded()
    assert run.out == "1\n"
    (fetching,) = run.main.process().fetching
    assert fetching.held_back  # it was looked at


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_that_was_caught_keeps_nothing(recorded: Recorded, workers: int) -> None:
    run = recorded(
        BEGIN
        + SHARDS
        + f"""
class Broken(Numbers):
    def __getitem__(self, index):
        shard = Shard()
        if index == 3:
            raise LookupError("this one")
        return len(alive)

most = []
for _ in range(3):
    try:
        for batch in DataLoader(Broken(8), batch_size=1, num_workers={workers}):
            most += batch.tolist()
    except LookupError:
        pass
print(max(most), len(alive))
"""
    )
    # torch itself complains on stderr, with us or without, when a worker collects an iterator of an earlier pass.
    assert (run.code, run.out) == (0, "1 0\n"), run.err
