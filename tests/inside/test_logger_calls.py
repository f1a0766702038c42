"""Calls into real loggers: by name and line, with the time they took; how each logger was set up; what gets lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run

from unstuck.evidence.loader import Call, Logger

Recorded = Callable[..., Run]
pytestmark = pytest.mark.scenario  # importing these libraries takes as long as a small training
WANDB = """
import os
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=os.path.dirname(__file__))
import wandb
"""
SERVER = """
import threading, time, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.05)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/private?token=secret"
"""


def calls(run: Run, what: str = "logger") -> dict[tuple[str, int | None], Call]:
    known = [one for one in run.succeeded().main.process().calls if one.what == what]
    return {(one.name, one.where.line if one.where else None): one for one in known}


def logger(run: Run) -> Logger:
    (only,) = run.succeeded().main.process().loggers
    return only


def counts(run: Run) -> dict[tuple[str, int | None], int]:
    return {name: one.timing.count for name, one in calls(run).items()}


def test_each_line_that_logs_to_wandb_is_told_apart(recorded: Recorded) -> None:
    run = recorded(
        WANDB
        + """
import numpy
def log(run, step):
    run.log({"rate": step})
run = wandb.init(project="x")
for step in range(3):
    wandb.log({"loss": 1.0})
    log(run, step)
run.log({"image": wandb.Image(numpy.zeros((4, 4), dtype="uint8"))})
run.finish()
"""
    )
    found = counts(run)
    assert {name: count for name, count in found.items() if name[0] == "wandb.log"} == {
        ("wandb.log", 10): 3,
        ("wandb.log", 7): 3,
        ("wandb.log", 12): 1,
    }
    assert found["wandb.init", 8] == found["wandb.finish", 13] == found["wandb.Image", 12] == 1
    assert calls(run)["wandb.init", 8].timing.total > 0.01


def test_the_mode_of_wandb_is_noted_with_the_line_that_set_it_up(recorded: Recorded) -> None:
    text = "for mode in ('offline', 'disabled', 'dryrun'):\n    wandb.init(project='x', mode=mode).finish()\n"
    run = recorded(WANDB + text).succeeded()
    found = run.main.process().loggers
    assert [one.mode for one in found] == ["offline", "disabled", "offline"]
    assert {(one.name, one.where.line if one.where else 0) for one in found} == {("wandb", 5)}
    assert [bool(one.folder) for one in found] == [True, False, True]
    assert "init_timeout" in found[0].settings


def test_an_address_is_noted_without_who_asks(recorded: Recorded) -> None:
    run = recorded("""
        import sys
        loggers = sys.modules.get("_unstuck_inside.side_work.loggers")
        plain = None if loggers is None else loggers.plain
        if plain is None:
            import importlib
            plain = importlib.import_module("_unstuck_inside.side_work.loggers").plain
        print(plain("https://me:word@logs.example:8080/a/b?key=1"), repr(plain("sqlite.db")), plain("http://h?x=1"))
    """).succeeded()
    assert run.out == "https://logs.example:8080 '' http://h\n"


LOSSES = """
import sys
row = sys.modules["_unstuck_inside.adapters.wandb_log"].row
ways = {
    "alone": lambda step: run.log({"a": 1}, commit=False),
    "two make a row": lambda step: (run.log({"a": 1}, commit=False), run.log({"b": 1})),
    "two of the same": lambda step: (run.log({"a": 1}, commit=False), run.log({"a": 2})),
    "with a step": lambda step: run.log({"a": 1}, step, False),
    "committed": lambda step: run.log({"a": 1}, commit=True),
    "plain": lambda step: run.log({"a": 1}),
}
folders = {}
for way, log in ways.items():
    run, before = wandb.init(project="x"), (row.uncommitted, row.lost)
    row.names.clear()
    folders[way] = os.path.dirname(run.dir)
    for step in range(20):
        log(step)
    run.finish()
    print(way, row.uncommitted - before[0], row.lost - before[1], sep=": ")
"""


def test_values_that_are_overwritten_before_their_row_is_written_are_counted(recorded: Recorded) -> None:
    reads = "\nfor way, folder in folders.items():\n    print(way, stored(folder), sep=': ')\n"
    run = recorded(WANDB + LOSSES + ROWS + reads).succeeded()
    counted, stored = run.out.splitlines()[:6], run.out.splitlines()[6:]
    assert counted == [
        "alone: 20: 19", "two make a row: 20: 0", "two of the same: 20: 20", "with a step: 0: 0", "committed: 0: 0",
        "plain: 0: 0",
    ]  # fmt: skip
    # then wandb itself has stored as many rows
    assert [one.rpartition(": ")[2] for one in stored] == ["1", "20", "20", "20", "20", "20"]
    last = run.main.process().loggers[-1]
    assert (last.uncommitted, last.lost, last.lost_at is not None) == (60, 39, False)
    assert [one.lost_at.line for one in run.main.process().loggers if one.lost_at] == [8]


ROWS = """
import glob
wandb.teardown()  # its own process has written everything then
def records(path):
    data, at, part = open(path, "rb").read(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if left < 7 or kind == 0:
            at += left
            continue
        part += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield part
            part = b""
def stored(folder, check=None):
    from wandb.proto import wandb_internal_pb2
    rows = 0
    for path in glob.glob(folder + "/*.wandb"):
        for data in records(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "history":
                items = {one.key or one.nested_key[0]: one.value_json for one in record.history.item}
                assert check is None or float(items[check]) == int(items["_step"]) == rows
                rows += 1
    return rows
"""


def test_what_summary_writer_does_is_one_call_each_and_nested_ones_are_part_of_it(recorded: Recorded) -> None:
    run = recorded("""
        import warnings
        warnings.simplefilter("ignore")
        import torch
        from torch.utils.tensorboard import SummaryWriter
        with SummaryWriter(__file__ + ".events") as writer:
            for step in range(4):
                writer.add_scalar("loss", 0.5, step)
            writer.add_histogram("weights", torch.rand(10), 0)
            writer.add_hparams({"rate": 0.1}, {"loss": 0.5})
    """)
    found = counts(run)
    assert found["SummaryWriter.add_scalar", 7] == 4
    assert found["SummaryWriter.add_histogram", 8] == found["SummaryWriter.add_hparams", 9] == 1
    assert not [line for name, line in found if name == "SummaryWriter.add_scalar" and line != 7]
    assert run.main.process().loggers[0].folder.endswith(".events")


def test_tensorboardx_counts_too(recorded: Recorded) -> None:
    run = recorded("""
        from tensorboardX import SummaryWriter
        writer = SummaryWriter(__file__ + ".events")
        writer.add_scalar("loss", 0.5, 1)
        writer.close()
    """)
    assert counts(run) == {("SummaryWriter.add_scalar", 3): 1, ("SummaryWriter.close", 4): 1}


def test_a_request_is_one_call_by_method_and_host_whoever_makes_it(recorded: Recorded) -> None:
    run = recorded(
        SERVER
        + """
import requests
for _ in range(3):
    urllib.request.urlopen(address, b"1").close()
requests.post(address, data=b"2", timeout=5)
"""
    )
    found = calls(run, "http")
    assert [one.timing.count for one in found.values()] == [3, 1]
    assert {name for name, _ in found} == {f"POST 127.0.0.1:{found_port(found)}"}
    assert all(one.timing.total >= 0.05 * one.timing.count for one in found.values())
    assert b"secret" not in run.main.recording.path.read_bytes()


def found_port(found: dict[tuple[str, int | None], Call]) -> str:
    return next(iter(found))[0].rpartition(":")[2]


def test_a_request_that_fails_is_counted_as_failed_and_raises_as_ever(recorded: Recorded) -> None:
    run = recorded("""
        import socket, traceback, unstuck, urllib.error, urllib.request
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        for _ in range(2):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
            except urllib.error.URLError:
                print(unstuck.__path__[0] in traceback.format_exc())
    """)
    (only,) = calls(run, "http").values()
    assert (only.failed, only.timing.count, only.since) == (2, 2, None)
    assert run.out == "False\nFalse\n"


def test_a_response_that_nobody_asks_for_does_not_go_on_for_ever(recorded: Recorded) -> None:
    run = recorded(
        SERVER
        + """
import http.client
connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
connection.request("POST", "/", b"1")
urllib.request.urlopen(address, b"1").close()
"""
    )
    found = list(calls(run, "http").values())
    assert [one.since for one in found] == [None] * len(found)
    assert sum(one.timing.count for one in found) == 1


def test_requests_of_other_threads_are_no_calls(recorded: Recorded) -> None:
    run = recorded(
        SERVER
        + """
thread = threading.Thread(target=lambda: urllib.request.urlopen(address, b"1").close())
thread.start()
thread.join()
"""
    )
    assert calls(run, "http") == {}


def test_mlflow_functions_and_its_client_are_calls_with_their_store(recorded: Recorded) -> None:
    run = recorded("""
        import logging, os, warnings
        os.environ.update(MLFLOW_ALLOW_FILE_STORE="true", MLFLOW_TRACKING_URI=f"file://{__file__}.runs")
        warnings.simplefilter("ignore")
        logging.disable()
        import mlflow
        with mlflow.start_run() as run:
            for step in range(3):
                mlflow.log_metric("loss", 0.5, step=step)
            mlflow.MlflowClient().log_param(run.info.run_id, "rate", 0.1)
    """)
    found = counts(run)
    assert (found["mlflow.start_run", 6], found["mlflow.log_metric", 8], found["mlflow.log_param", 9]) == (1, 3, 1)
    assert (logger(run).mode, logger(run).folder.endswith(".runs")) == ("offline", True)
