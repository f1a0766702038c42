"""Errors of CUDA and NCCL as exceptions of a rank: which line may be named, and what to do.

The evidence is built by hand around real texts (tests/texts): none was seen on a GPU here.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Exit, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Failure, Process

TEXTS = Path(__file__).parents[1] / "texts"
LINE = Place("/project/my train.py", 31, "train")
COMMAND = ["torchrun", "--nproc-per-node", "2", "my train.py", "--name", "a;b"]
GLOO = "[/build/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1234."
WARNING = "CUDA kernel errors might be asynchronously reported at some other API call"


def text(name):
    return (TEXTS / f"{name}.txt").read_text().partition("\n\n")[2].strip()


def rank(number, message, at=5.0, kind="RuntimeError", **more):
    failure = Failure(how="uncaught", type=kind, message=message, at=at, frames=[LINE])
    return Process("n", 100 + number, 10, "main", rank=number, world=2, failures=[failure], **more)


def run_of(*processes, command=COMMAND):
    exits = [Exit(one.pid, 1, 6.0, "reaped", 10) for one in processes]
    return Evidence(run=Run(id="r", status=1, command=command), recording=list(processes), exits=exits)


def roots(evidence):
    return [one for one in report_on(evidence).findings if one.role == "root"]


def alone(name, **more):
    (finding,) = roots(run_of(Process("n", 100, 10, "main", failures=rank(0, text(name)).failures), **more))
    assert finding.rule == "uncaught-exception"
    return finding


LATE = ["assert", "assert-old-warning", "assert-with-search", "illegal-memory-access", "launch-failure"]


@pytest.mark.parametrize("name", LATE)
def test_the_line_of_an_error_that_is_reported_late_is_only_likely_and_the_run_is_repeated_to_find_it(name):
    finding = alone(f"cuda/{name}")

    assert finding.certainty == "likely"
    assert "the line shown may be the wrong one" in finding.cause
    assert any("my train.py:31" in seen and "later than it failed" in seen for seen in finding.seen)
    assert any(WARNING in seen for seen in finding.seen), "torch's own warning was cut off"
    assert "Start at that line" not in finding.remedy.text
    (command,) = finding.remedy.commands
    assert shlex.split(command) == ["CUDA_LAUNCH_BLOCKING=1", *COMMAND]


@pytest.mark.parametrize(
    "name", ["assert-blocking", "illegal-memory-access-blocking", "no-kernel-image", "invalid-argument"]
)
def test_where_launches_blocked_or_the_call_itself_failed_the_line_is_certain(name):
    finding = alone(f"cuda/{name}")

    assert finding.certainty == "certain"
    assert (finding.where, "wrong one" in finding.cause) == (LINE, False)
    assert "CUDA_LAUNCH_BLOCKING" not in finding.remedy.text
    assert finding.remedy.commands == []


def test_an_assert_names_what_to_check_and_an_illegal_access_does_not_guess():
    guess, blind = alone("cuda/assert"), alone("cuda/illegal-memory-access")

    assert "a label or index out of range" in guess.remedy.text
    assert any("labels are below the number of classes" in each.text for each in guess.alternatives)
    assert not any("label" in each.text for each in (blind.remedy, *blind.alternatives))


def test_what_the_gpu_printed_is_quoted_where_the_message_has_it():
    assert "the GPU says: Assertion `t >= 0 && t < n_classes` failed" in alone("cuda/assert-line-of-labels").seen


def test_damaged_memory_of_a_gpu_is_not_searched_for_in_the_program():
    finding = alone("cuda/uncorrectable-memory")

    assert finding.remedy.commands == ["nvidia-smi -q -d ECC"]
    assert "another GPU" in finding.remedy.text


def test_a_run_without_a_known_command_gets_the_variable_alone():
    assert alone("cuda/assert", command=[]).remedy.commands == ["export CUDA_LAUNCH_BLOCKING=1"]


def test_an_exception_that_a_thread_handed_on_is_reported_late_too():
    carried = (
        "Caught RuntimeError in pin memory thread for device 0.\nOriginal Traceback (most recent call last):\n"
        f"RuntimeError: {text('cuda/assert')}"
    )
    main = Process("n", 100, 10, "main", failures=rank(0, carried).failures)
    (finding,) = roots(run_of(main))

    assert (finding.rule, finding.certainty) == ("uncaught-exception", "likely")
    assert "CUDA error: device-side assert triggered" in finding.cause


def test_the_first_of_several_ranks_to_die_is_certain_and_its_line_is_not():
    (finding,) = roots(run_of(rank(0, GLOO, 5.2), rank(1, text("cuda/assert"), 5.0)))

    assert (finding.rule, finding.rank, finding.certainty) == ("rank-crash-cascade", 1, "likely")
    assert "device-side assert triggered (reported at my train.py:31)" in finding.cause
    assert "train.py" not in finding.remedy.text
    assert any(WARNING in seen for seen in finding.seen)
    assert shlex.split(finding.remedy.commands[0]) == ["CUDA_LAUNCH_BLOCKING=1", *COMMAND]


def test_a_worker_that_uses_the_gpu_does_not_know_its_line_either():
    inner = Failure(how="fetch", type="RuntimeError", message=text("cuda/assert"), at=4.9, frames=[LINE], index=7)
    worker = Process("n", 200, 100, "worker", worker=0, failures=[inner])
    message = f"Caught RuntimeError in DataLoader worker process 0.\n{text('cuda/assert')}"
    main = Process(
        "n", 100, 10, "main", failures=rank(0, message).failures, loaders=[Loader(1, num_workers=1, pids=[200])]
    )
    (finding,) = roots(run_of(main, worker))

    assert (finding.rule, finding.certainty) == ("worker-python-exception", "likely")
    assert "train.py:31" not in finding.cause
    assert finding.remedy.commands[0].startswith("CUDA_LAUNCH_BLOCKING=1 torchrun")


def test_the_last_error_of_nccl_is_told_and_how_it_says_more():
    finding = alone("nccl/system-no-route")

    assert "NCCL's last error: socketStartConnect: Connect to 10.0.0.1<52822> failed : No route to host" in finding.seen
    assert shlex.split(finding.remedy.commands[0]) == ["NCCL_DEBUG=INFO", *COMMAND]


def test_a_rank_that_only_noticed_is_not_the_place_to_look():
    assert "Read the logs of the other ranks and nodes first" in alone("nccl/remote-reset-by-peer").remedy.text


def told(message, kind="RuntimeError", command=COMMAND):
    main = Process("n", 100, 10, "main", failures=rank(0, message, kind=kind).failures)
    (finding,) = roots(run_of(main, command=command))
    return finding


def test_a_long_message_is_cut_in_the_cause_and_whole_beside_it():
    long = "The size of tensor a (10) must match the size of tensor b (32) at non-singleton dimension 0"
    finding = told(long)

    assert finding.cause.endswith("must match the size of tensor b (32) at non-singleton…")
    assert finding.saw == f"RuntimeError: {long}"
    assert finding.remedy.code == ["print(a.shape, b.shape)"]
    assert told("", "EOFError").cause == "The training raised EOFError."


def test_what_a_worker_raised_is_told_instead_of_that_it_was_caught():
    carried = (
        "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        '  File "/project/train.py", line 3, in read\nValueError: 3 channels\nwere expected'
    )

    assert told(carried, "ValueError").cause == "The training raised ValueError: 3 channels."


def test_a_script_of_one_process_can_be_stopped_in_the_debugger():
    finding = told("3", "KeyError", command=["python3", "my train.py", "--fast"])

    assert finding.alternatives[0].commands == ["python3 -m pdb -c continue 'my train.py' --fast"]
    assert told("3", "KeyError", command=["torchrun", "train.py"]).alternatives == []
