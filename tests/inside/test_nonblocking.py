"""`unstuck.nonblocking`: in order, bounded, never in silence, across a fork, against servers that stall or are gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run
from test_logger_calls import ROWS, WANDB

Started = Callable[..., Run]
Recorded = Callable[..., Run]
BEGIN = """
import os, sys, threading, time
import unstuck
class Rows:
    def __init__(self):
        self.rows, self.level = [], 3
    def log(self, row, step=None):
        self.rows.append((row, step))
    def slow(self, seconds):
        time.sleep(seconds)
    def fail(self):
        raise ValueError("no such table")
rows = Rows()
"""
STALLING = """
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Stall(BaseHTTPRequestHandler):
    def do_POST(self):
        threading.Event().wait()
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Stall)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
class Client:
    def push(self, row):
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", row).close()
"""


def told(run: Run) -> str:
    assert run.code == 0, run.err
    return run.err


def test_calls_arrive_in_order_and_what_changes_later_is_copied(started: Started) -> None:
    run = started(
        BEGIN
        + """
logger = unstuck.nonblocking(rows, size=10_000)
row = {"loss": 0, "all": []}
for step in range(2000):
    row["loss"] = step
    row["all"].append(step)
    logger.log(row, step=step)
assert logger.level == 3 and logger.logger is rows
assert logger.flush() and logger.undelivered == 0
assert [(one["loss"], len(one["all"]), step) for one, step in rows.rows] == [(n, n + 1, n) for n in range(2000)]
print("fine", threading.active_count())
""",
        recorded=False,
    )
    assert (told(run), run.out) == ("", "fine 2\n")


def test_no_thread_is_made_before_the_first_call(started: Started) -> None:
    run = started(BEGIN + "logger = unstuck.nonblocking(rows)\nprint(threading.active_count())\n", recorded=False)
    assert (told(run), run.out) == ("", "1\n")


def test_tensors_are_copied_without_their_graph(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
import torch
logger = unstuck.nonblocking(rows)
weight = torch.zeros(2, requires_grad=True)
loss = (weight + 1).sum()
logger.log({"loss": loss, "weight": weight})
with torch.no_grad():
    weight += 5
logger.flush()
((kept, _),) = rows.rows
print(kept["loss"].requires_grad, kept["loss"].item(), kept["weight"].tolist())
"""
    ).succeeded()
    assert run.out == "False 2.0 [0.0, 0.0]\n"


def test_a_server_that_stalls_holds_the_training_up_once_and_is_told_at_the_end(started: Started) -> None:
    run = started(
        BEGIN
        + STALLING
        + """
wait_for, held_up = threading.Condition.wait_for, []
def counted(self, true, limit=None):
    found = wait_for(self, true, limit)
    if not found:
        held_up.append(limit)
    return found
threading.Condition.wait_for = counted
logger = unstuck.nonblocking(Client(), limit=0.2, last=0.5, size=5)
for step in range(200):
    logger.push(b"row")
print(held_up, logger.undelivered)
print(logger.flush(), held_up)
""",
        recorded=False,
    )
    assert run.out == "[0.2] 200\nFalse [0.2, 0.5]\n"
    assert told(run) == ("unstuck.nonblocking(Client): of 200 calls 194 found no room in time, 6 were still waiting\n")


def test_a_server_that_is_gone_is_told_at_once_and_counted(started: Started) -> None:
    run = started(
        BEGIN
        + STALLING
        + """
server.shutdown()
server.server_close()
logger = unstuck.nonblocking(Client())
for step in range(5):
    logger.push(b"row")
print(logger.close(), logger.undelivered)
""",
        recorded=False,
    )
    first, last = told(run).splitlines()
    assert run.out == "True 5\n"
    assert first.startswith("unstuck.nonblocking(Client): a call failed: URLError:")
    assert last.startswith("unstuck.nonblocking(Client): of 5 calls 5 failed (first: URLError:")


def test_everything_is_delivered_at_exit_without_a_flush(started: Started) -> None:
    run = started(
        BEGIN
        + """
class Printing:
    def log(self, step):
        time.sleep(0.01)
        print(step)
logger = unstuck.nonblocking(Printing())
for step in range(30):
    logger.log(step)
""",
        recorded=False,
    )
    assert told(run) == ""
    assert run.out.split() == [str(step) for step in range(30)]


@pytest.mark.parametrize("how", ["os.fork()", "multiprocessing"])
def test_a_forked_child_has_a_queue_of_its_own_and_what_waited_is_delivered_once(started: Started, how: str) -> None:
    child = """
def child():
    logger.log(1000)
    assert logger.flush()
"""
    forks = """
pid = os.fork()
if not pid:
    child()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    starts = """
import multiprocessing
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(20)
assert process.exitcode == 0
"""
    run = started(
        BEGIN
        + """
class Printing:
    def log(self, step):
        time.sleep(0.005)
        os.write(1, f"{step}\\n".encode())
logger = unstuck.nonblocking(Printing(), limit=1.0)
"""
        + child
        + "for step in range(40):\n    logger.log(step)\n"
        + (forks if how == "os.fork()" else starts),
        recorded=False,
    )
    assert told(run) == ""
    assert sorted(int(one) for one in run.out.split()) == [*range(40), 1000]


def test_a_child_is_never_forked_while_the_logger_holds_a_lock(started: Started) -> None:
    # given a logger that holds a lock of its own while it works, as one that prints does
    run = started(
        BEGIN
        + """
lock = threading.Lock()
class Locking:
    def log(self):
        with lock:
            time.sleep(0.002)
logger = unstuck.nonblocking(Locking(), limit=1.0)
for turn in range(40):
    logger.log()
    logger.log()
    pid = os.fork()
    if not pid:
        os._exit(0 if lock.acquire(timeout=0) else 1)
    assert os.waitpid(pid, 0)[1] == 0, turn
print("never")
""",
        recorded=False,
    )
    assert (told(run), run.out) == ("", "never\n")


@pytest.mark.scenario
def test_real_wandb_has_every_row_in_order(recorded: Recorded) -> None:
    run = recorded(
        WANDB
        + """
import unstuck
run = unstuck.nonblocking(wandb.init(project="x"), size=5000)
folder = os.path.dirname(run.dir)
for step in range(300):
    run.log({"loss": float(step)})
assert run.finish()
"""
        + ROWS
        + "print(stored(folder, check='loss'))"
    ).succeeded()
    assert run.out == "300\n"
    (queue,) = [one for one in run.main.process().loggers if one.mode == "in a thread"]
    assert (queue.name, queue.kept, queue.refused) == ("unstuck.nonblocking(Run)", 301, 0)


def test_what_could_not_be_delivered_is_in_the_recording(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
logger = unstuck.nonblocking(rows, limit=0.01, last=0.1, size=2)
for turn in range(6):
    logger.slow(30)
"""
    )
    assert "of 6 calls 3 found no room in time, 3 were still waiting" in told(run)
    (queue,) = run.main.process().loggers
    assert (queue.kept, queue.refused) == (6, 6)


def test_a_function_and_a_context_manager_can_be_handed_over_too(started: Started) -> None:
    run = started(
        BEGIN
        + """
import pickle
send = unstuck.nonblocking(rows.log)
send({"a": 1})
send.flush()
class Writer(Rows):
    closed = False
    def close(self):
        self.closed = True
writer = Writer()
with unstuck.nonblocking(writer) as stand_in:
    stand_in.log({"b": 2})
    stand_in.level = 7
again = pickle.loads(pickle.dumps(stand_in))
print(rows.rows, writer.rows, writer.closed, writer.level, again.level)
""",
        recorded=False,
    )
    assert (told(run), run.out) == ("", "[({'a': 1}, None)] [({'b': 2}, None)] True 7 7\n")
