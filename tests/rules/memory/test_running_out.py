"""What runs out in one process and ends another: descriptors, and the memory of a GPU as torch's messages tell it."""

from __future__ import annotations

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.analysis.failures import raised_at, ran_out, spent_on
from unstuck.analysis.torch_errors import is_out_of_memory, shortage
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.loader import Fetching, Handed, Loader
from unstuck.evidence.process import Failure, Process
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

GIB = 1 << 30
LOOP = Place("/project/train.py", 12, "train")
TORCH = Place("/env/lib/python3/site-packages/torch/utils/data/dataloader.py", 725, "__next__")
NEW = (
    "CUDA out of memory. Tried to allocate 1.98 GiB. GPU 0 has a total capacity of 15.56 GiB of which 1.37 GiB is "
    "free. Process 6680 has 1.81 GiB memory in use. Including non-PyTorch memory, this process has 11.21 GiB memory in "
    "use. Of the allocated memory 9.46 GiB is allocated by PyTorch, and 1.51 GiB is reserved by PyTorch but "
    "unallocated."
)
IN_A_CONTAINER = (
    "CUDA out of memory. Tried to allocate 90.00 MiB. GPU 0 has a total capacty of 11.75 GiB of which 81.94 MiB is "
    "free. Process 46840 has 11.66 GiB memory in use. Of the allocated memory 11.37 GiB is allocated by PyTorch, and "
    "174.05 MiB is reserved by PyTorch but unallocated."
)
OLD = (
    "CUDA out of memory. Tried to allocate 2.26 GiB (GPU 1; 6.00 GiB total capacity; 4.50 GiB already allocated; "
    "512.00 MiB free; 5.00 GiB reserved in total by PyTorch)"
)


def run_of(*processes: Process, command: str = "python train.py") -> Evidence:
    return Evidence(run=Run(id="run", command=command.split()), recording=list(processes))


def main_that(failure: Failure | None, loader: Loader, **known) -> Process:
    failures = [failure] if failure is not None else []
    return Process(node="node", pid=10, parent=1, role="main", loaders=[loader], failures=failures, **known)


def findings(rule: str, evidence: Evidence):
    return judge_one(all_rules()[rule], Case(evidence)).findings


def test_a_message_gives_its_numbers() -> None:
    said = shortage(NEW)

    assert (said.gpu, said.tried, said.total) == (0, int(1.98 * GIB), int(15.56 * GIB))
    assert (said.own, said.others) == (int(11.21 * GIB), {6680: int(1.81 * GIB)})
    assert (said.allocated, said.reserved) == (int(9.46 * GIB), int(1.51 * GIB))


def test_a_message_of_old_torch_gives_its_numbers() -> None:
    said = shortage(OLD)

    assert (said.gpu, said.tried, said.free) == (1, int(2.26 * GIB), GIB // 2)
    assert (said.allocated, said.reserved) == (int(4.5 * GIB), GIB // 2)


def test_a_process_that_torch_names_by_a_number_of_the_host_is_known_to_be_itself() -> None:
    said = shortage(IN_A_CONTAINER)

    assert said.own == int(11.66 * GIB)
    assert said.others == {}


@pytest.mark.parametrize(
    "text", ["CUDA error: out of memory", "HIP out of memory. Tried to allocate 1.00 GiB", NEW, OLD]
)
def test_it_is_recognised_whoever_says_so(text) -> None:
    assert is_out_of_memory(text)


@pytest.mark.parametrize("text", ["DefaultCPUAllocator: can't allocate memory", "out of memory", "CUDA error: unknown"])
def test_other_shortages_are_not_taken_for_it(text) -> None:
    assert not is_out_of_memory(text)


def out_of_memory(text: str, *others: Process) -> str:
    failure = Failure("uncaught", "OutOfMemoryError", text, at=3.0, frames=[LOOP])
    main = main_that(failure, Loader(1, dataset="Scans", batch_size=32, batches=40))
    (finding,) = findings("cuda-out-of-memory", run_of(main, *others))
    return f"{finding.cause} {finding.remedy.text} {finding.remedy.commands}"


def test_another_rank_on_the_same_gpu_is_told_from_a_stranger() -> None:
    other = Process(node="node", pid=6680, parent=1, role="main", rank=1)

    assert "Give each rank its own GPU: rank 1 (pid 6680) computes on the same one." in out_of_memory(NEW, other)
    assert "ps -fp 6680" in out_of_memory(NEW)


def test_pieces_that_would_have_sufficed_are_told_with_the_setting_that_the_message_names() -> None:
    text = NEW.replace("Process 6680 has 1.81 GiB memory in use. ", "") + " try setting PYTORCH_ALLOC_CONF=expandable"

    assert "PYTORCH_ALLOC_CONF=expandable_segments:True python train.py" in out_of_memory(text)


def test_without_either_the_batch_is_made_smaller() -> None:
    text = NEW.replace("1.98 GiB. GPU", "4.00 GiB. GPU")

    assert "batch_size=16 (now 32)" in out_of_memory(text)
    assert "expandable_segments" not in out_of_memory(text)


def test_more_than_the_whole_gpu_is_said_to_be_that() -> None:
    assert "asked for 56 GiB at once, it has 16 GiB." in out_of_memory(NEW.replace("1.98 GiB. GPU", "55.57 GiB. GPU"))


def test_the_line_of_a_replica_is_read_from_the_traceback_that_is_carried_along() -> None:
    carried = (
        "Caught OutOfMemoryError in replica 0 on device 0.\nOriginal Traceback (most recent call last):\n  File "
        f'"/project/model.py", line 41, in forward\n    x = a @ b\n  File "{TORCH.file}", line 2, in matmul\n{NEW}'
    )
    assert raised_at(Failure("uncaught", "OutOfMemoryError", carried, frames=[LOOP])) == Place(
        "/project/model.py", 41, "forward"
    )


def descriptors(how: str, message: str, at: float = 2.0, **kinds: int) -> Failure:
    named = {name.replace("_", " "): count for name, count in kinds.items()}
    return Failure(
        how,
        "OSError",
        message,
        at=at,
        frames=[LOOP, TORCH],
        descriptors=named,
        open_files=["/data/a"],
        descriptor_limit=100,
    )


def worker_that(*failures: Failure, tensors: int = 0) -> Process:
    fetching = [Fetching(0, samples=80, handed=[Handed(1.0, 0, tensors=tensors)] if tensors else [])]
    return Process(node="node", pid=20, parent=10, role="worker", worker=0, failures=list(failures), fetching=fetching)


LOADER = Loader(1, dataset="Clips", num_workers=1, prefetch_factor=2, batches=8, pids=[20])


def test_a_main_process_that_repeats_what_its_worker_said_has_not_run_out_itself() -> None:
    told = "[Errno 24] Too many open files"
    own = descriptors("fetch", told, file=90, pipe=8)
    carried = descriptors("uncaught", f"Caught OSError in DataLoader worker process 0.\n{told}", 2.1, shared_memory=9)

    (found,) = ran_out(Case(run_of(main_that(carried, LOADER), worker_that(own))))

    assert found.process.pid == 20
    assert spent_on(found.failure) == "file"


def test_tensors_that_are_kept_are_told_from_batches_of_too_many() -> None:
    full = descriptors("uncaught", "Too many open files. Communication with the workers", shared_memory=85)
    few, many = (run_of(main_that(full, LOADER), worker_that(tensors=count)) for count in (10, 60))

    assert "85 batch tensors are still referenced" in findings("fd-exhausted-tensors-kept", few)[0].cause
    assert "each of the 60 tensors of a batch needs one" in findings("fd-exhausted-tensors-kept", many)[0].cause


def test_tensors_that_no_worker_can_have_sent_are_not_said_to_be_sent() -> None:
    full = descriptors("uncaught", "unable to open shared memory object: Too many open files (24)", shared_memory=85)

    (finding,) = findings("fd-exhausted-tensors-kept", run_of(main_that(full, LOADER), worker_that(tensors=2)))

    assert "85 tensors in shared memory hold one each (limit 100)" in finding.cause


def test_a_worker_whose_batch_was_dropped_is_found_while_its_main_process_still_waits() -> None:
    dropped = descriptors("feeder", "[Errno 24] Too many open files", file=90, pipe=8)

    (finding,) = findings("fd-leak-in-dataset", run_of(main_that(None, LOADER), worker_that(dropped)))

    assert finding.worker == 0
    assert "raised below /project/train.py:12 in train" in finding.seen


def test_a_main_process_that_leaks_files_of_its_own_is_no_dataset() -> None:
    full = descriptors("uncaught", "[Errno 24] Too many open files", file=90, pipe=8)

    assert findings("fd-leak-in-dataset", run_of(main_that(full, LOADER))) == []
    assert findings("fd-exhausted-tensors-kept", run_of(main_that(full, LOADER))) == []


def test_a_worker_that_was_killed_explains_more_than_the_thread_that_died_of_it() -> None:
    evidence = evidence_of("pin-memory-thread-died")
    main, worker = evidence.recording
    seen = {"pid": worker.pid, "status": -9, "at": main.failures[0].at - 0.1, "how": "reaped", "by": main.pid}
    killed = msgspec.structs.replace(evidence, exits=[msgspec.convert(seen, type(evidence.exits[0]))])

    assert report_on(killed).findings[0].rule == "worker-killed"
