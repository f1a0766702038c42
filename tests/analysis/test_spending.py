"""Where the time of a run goes that nobody prepared: from py-spy's samples to a verdict."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from capture import words
from capture_samples import RULE, lasting, started
from kept import KEPT
from unstuck.analysis.case import Case
from unstuck.analysis.stacks import COMPILING, TRAINING, doing
from unstuck.analysis.time_use import spending
from unstuck.demo.scenarios import all_scenarios
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence
from unstuck.evidence.live import Frame, Stack
from unstuck.probes.sampler import RATE, parse
from unstuck.report import Report
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one
from unstuck.views.console import console_for
from unstuck.views.terminal import show

HERE = KEPT / RULE
LINE = 16  # of scenarios/dataloader_bound.py as it was captured, where its samples are made

TRAIN = """
import logging, time, torch
from torch.utils.data import DataLoader, Dataset

class Distant(logging.Handler):
    def emit(self, record):
        time.sleep(0.05)

class Rows(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.zeros(64)

log = logging.getLogger("train")
log.addHandler(Distant())

if __name__ == "__main__":
    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = {"weights": torch.rand(20_000_000)}
    for step, rows in enumerate(DataLoader(Rows(), batch_size=8, num_workers=1)):
        model(rows).mean().backward()
        optimizer.step()
        log.warning("step %d", step)
        if step % 10 == 0:
            torch.save(state, "state.pt")
"""


def evidence(file: str) -> Evidence:
    return msgspec.json.decode((HERE / f"{file}.json").read_bytes(), type=Evidence)


def why(pid: int, *words: str, seconds: int = 3) -> Report:
    command = [sys.executable, "-m", "unstuck", "why", str(pid), "--seconds", str(seconds), "--json", *words]
    return msgspec.json.decode(
        subprocess.run(command, capture_output=True, timeout=120, check=False).stdout, type=Report
    )


def test_samples_alone_tell_that_the_loop_waits_and_at_which_line_its_workers_are():
    (finding,) = report_on(evidence("sampled")).findings

    assert finding.rule == RULE
    assert (finding.where.file, finding.where.line) == ("/project/scenarios/dataloader_bound.py", LINE)


def test_the_words_are_these():
    assert words(RULE, evidence("sampled")) == (HERE / "sampled.txt").read_text()


def test_a_run_whose_time_is_compute_stays_clear():
    report = report_on(evidence("sampled_clear"))

    assert report.state == "healthy"
    assert report.spent[0].what == "idle"
    assert next(one.what for one in report.spent if one.role == "main") == "computing"


def test_shares_of_a_thread_add_up():
    spent = spending(Case(evidence("sampled")))

    assert sum(one.share for one in spent if one.role == "main") == pytest.approx(1, abs=0.03)
    assert sum(one.share for one in spent if one.role == "workers") == pytest.approx(1, abs=0.05)


def test_a_loop_that_does_not_get_on_is_not_called_slow():
    found = evidence("sampled")
    (main,) = [one.pid for one in found.processes if one.role == "main"]
    waits = [
        one for one in found.samples if one.pid != main or any(call.name == "_try_get_data" for call in one.frames)
    ]
    stands = msgspec.structs.replace(found, samples=waits, stacks=[])

    assert judge_one(all_rules()[RULE], Case(stands)).verdict == "clear"


def test_workers_that_have_only_started_are_waited_for():
    found = evidence("sampled")
    young = [msgspec.structs.replace(one, age=1.0) for one in found.processes]

    assert judge_one(all_rules()[RULE], Case(msgspec.structs.replace(found, processes=young))).verdict == "clear"


def test_py_spys_raw_format_is_read_with_processes_threads_and_odd_commands(tmp_path):
    file = tmp_path / "raw"
    file.write_text(
        'process 7:"python -c import x; y()";process 8:"python";thread (8): MainThread;f (/a b/c.py:3);C.g (<x>:1) 25\n'
        "thread (7): MainThread;<module> (/t.py:1) 50\n"
        'process 7:"python";thread (9): QueueFeederThread 2\n'
    )

    worker, main = parse(7, file)

    assert (worker.pid, worker.parent, worker.tid, worker.seconds) == (8, 7, 8, 25 / RATE)
    assert [(one.file, one.line, one.function) for one in worker.frames] == [("<x>", 1, "C.g"), ("/a b/c.py", 3, "f")]
    assert (main.pid, main.parent, main.count) == (7, 0, 50)


def test_running_compiled_code_is_no_compiling():
    runs = ["torch/_inductor/output_code.py:CompiledFxGraph.__call__", "torch/_dynamo/eval_frame.py:compile_wrapper"]
    compiles = ["torch/nn/functional.py:linear", "torch/_dynamo/convert_frame.py:_compile", *runs]

    assert doing(stack(runs)) == TRAINING
    assert doing(stack(compiles)) == COMPILING


def stack(calls: list[str]) -> Stack:
    split = [call.rpartition(":") for call in [*calls, "/project/train.py:main"]]
    return Stack(pid=1, tid=1, frames=[Frame(file=file, line=1, function=name) for file, _, name in split])


def test_the_terminal_shows_where_the_time_goes():
    out = io.StringIO()

    show(report_on(evidence("sampled")), console_for(out, width=120))

    lines = [line.split() for line in out.getvalue().splitlines()]
    assert any(line[:1] == ["time"] and line[2] == "%" for line in lines)
    assert "main thread: waiting for data at /project/scenarios/dataloader_bound.py:24 (main)" in out.getvalue()


@pytest.mark.scenario
def test_a_slow_loader_of_a_run_that_nobody_prepared_is_found_by_sampling_it(tmp_path):
    with lasting(RULE, tmp_path) as pid:
        report = why(pid, seconds=10)  # its steps are so short that three seconds may show none

    roots = [one for one in report.findings if one.role == "root"]
    assert [one.rule for one in roots] == [RULE]
    lines = all_scenarios()[RULE].path.read_text().splitlines()
    (made_at,) = [number for number, line in enumerate(lines, 1) if "irfft" in line]
    assert (Path(roots[0].where.file).name, roots[0].where.line) == ("dataloader_bound.py", made_at)
    assert any(one.role == "workers" and one.where and one.where.line == made_at for one in report.spent)


@pytest.mark.scenario
def test_its_healthy_neighbour_is_not(tmp_path):
    with lasting(f"{RULE}-healthy", tmp_path) as pid:
        report = why(pid)

    assert report.state == "healthy"
    assert report.findings == []


@pytest.mark.scenario
def test_time_in_a_logger_and_in_checkpoints_is_called_so(script):
    with started(script(TRAIN)) as process:
        spent = why(process.pid).spent

    found = {one.what: one.where.line for one in spent if one.role == "main" and one.where}
    assert TRAIN.splitlines()[found["logging"] - 1].strip() == "time.sleep(0.05)"
    assert TRAIN.splitlines()[found["saving a checkpoint"] - 1].strip() == 'torch.save(state, "state.pt")'


@pytest.mark.scenario
def test_after_ctrl_c_no_sampler_is_left(script):
    with started(script(TRAIN)) as training:
        command = [sys.executable, "-m", "unstuck", "why", str(training.pid), "--seconds", "60"]
        asked = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        samplers = wait_for_samplers(asked.pid)

        asked.send_signal(signal.SIGINT)
        asked.wait(120)

        assert samplers
        assert [pid for pid in samplers if os.path.exists(f"/proc/{pid}")] == []


def wait_for_samplers(pid: int) -> list[str]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found = [one for one in children if b"record" in Path(f"/proc/{one}/cmdline").read_bytes()]
        if found:
            return found
        time.sleep(0.1)
    return []


def test_the_json_has_it_too():
    encoded = json.loads(msgspec.json.encode(report_on(evidence("sampled")).spent))

    assert set(encoded[0]) == {"rank", "worker", "role", "what", "where", "share", "seconds"}


def test_a_loop_that_only_passes_over_batches_is_not_called_slow():
    found = evidence("sampled")
    (main,) = [one.pid for one in found.processes if one.role == "main"]
    skips = [one for one in found.samples if one.pid != main or any(call.name == "__next__" for call in one.frames)]

    assert judge_one(all_rules()[RULE], Case(msgspec.structs.replace(found, samples=skips))).verdict == "clear"
