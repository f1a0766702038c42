"""The processes between a check and Ray, with a stand-in for Ray: what is sent to nodes, and what is sent again."""

from __future__ import annotations

import subprocess
import sys

import pytest
from given_files import read_by, shard, some_files, tasks

from unstuck.checking.cluster import Cluster
from unstuck.checking.notes import Wish
from unstuck.checking.workers import Workers
from unstuck.errors import UserError

pytest.importorskip("cloudpickle")

# Each task is done by a process of its own, which has the function as Ray's pickle brings it, and lacks psutil.
RAY = '''
import os, subprocess, sys
from types import SimpleNamespace
import cloudpickle

NODE = """
import sys; sys.modules["psutil"] = None
import cloudpickle
function, body = cloudpickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(function(body))
"""

class RayError(Exception): pass
class RayTaskError(RayError): pass
class WorkerCrashedError(RayError): pass

exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
results, lost = {}, int(os.environ.get("LOST", 0))

def remote(**options):
    def make(function):
        def submit(body):
            given = cloudpickle.dumps((function, body))
            command = [sys.executable, "-c", NODE]
            done = subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True, cwd="/")
            results[len(results)] = done.stdout
            return len(results) - 1
        return SimpleNamespace(remote=submit)
    return make

def get(ref):
    global lost
    if ref and lost:
        lost -= 1
        raise WorkerCrashedError("killed")
    return results[ref]

def wait(refs, num_returns=1, timeout=None):
    return refs, []

def init(*words, **options): pass
def shutdown(): pass
def cancel(ref, force): pass
def cluster_resources(): return {"CPU": 2}
def nodes(): return [{"Alive": True}]
'''


@pytest.fixture
def ray(tmp_path, monkeypatch):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "ray.py").write_text(RAY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_a_task_is_done_elsewhere_as_it_is_here(ray):
    given = tasks(some_files(ray), together=5, wish=Wish(decode=True, digests=True, algorithm="crc32"))
    assert read_by(Cluster("ray://local"), given) == read_by(Workers(1), given)


def test_what_is_lost_is_sent_again_one_by_one(ray, monkeypatch):
    monkeypatch.setenv("LOST", "2")
    given = tasks([shard(ray / f"{number}.tar") for number in range(2)])
    reads, _ = read_by(Cluster("ray://local"), given)
    assert [read.file.samples for read in reads] == [20, 20]


def test_what_is_lost_again_and_again_stays_unread(ray, monkeypatch):
    monkeypatch.setenv("LOST", "3")
    reads, _ = read_by(Cluster("ray://local"), tasks([shard(ray / "one.tar")]))
    assert [read.file.unread for read in reads] == ["the Ray worker that had it read was killed, 3 times in a row"]


def test_a_cluster_that_cannot_be_started_is_one_clear_line(ray, tmp_path):
    (tmp_path / "modules" / "ray.py").write_text("def init(*words, **options): raise RuntimeError('no room')")
    with pytest.raises(UserError, match="Ray does not start here: no room; leave --on out"):
        Cluster("ray://local").__enter__()


def test_what_a_node_imports_is_the_standard_library_and_msgspec():
    block = "import sys; sys.modules.update(dict.fromkeys(('psutil', 'numpy', 'rich', 'ray', 'pyarrow', 'PIL')))"
    program = f"{block}; import unstuck.checking.cluster.dispatch"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
