"""What the doctor's first rung looks at: the machine, an interpreter's libraries, what variables and versions do."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from unstuck.probes import cgroups, machine, machine_settings
from unstuck.trials.doctor.environment import MISBELIEVED, notes_on, said_of

CRASHING = """
import ctypes, sys
from torch.utils.data import DataLoader, Dataset

class Crashing(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        ctypes.string_at(0)

if __name__ == "__main__":
    list(DataLoader(Crashing(), num_workers=int(sys.argv[1])))
"""


def test_the_machine_is_what_the_kernel_says(tmp_path):
    seen = machine_settings.look(folder=tmp_path)

    assert seen.shm_size == os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize
    assert (seen.descriptors, seen.descriptors_most) == resource.getrlimit(resource.RLIMIT_NOFILE)
    assert (seen.processors, seen.processors_allowed) == (os.cpu_count(), len(os.sched_getaffinity(0)))
    assert seen.max_map_count == int(Path("/proc/sys/vm/max_map_count").read_text())
    assert (seen.kernel, seen.folder) == (os.uname().release, str(tmp_path))
    assert 0 < seen.memory_available < seen.memory


def test_versions_are_those_of_the_interpreter_that_is_asked():
    seen = machine_settings.look(sys.executable)

    assert seen.versions["torch"] == metadata.version("torch")
    assert seen.start_method == multiprocessing.get_context().get_start_method()
    assert seen.python_version == sys.version.split()[0]


def test_an_interpreter_without_libraries_has_none(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S "$@"\n')
    bare.chmod(0o755)

    assert machine_settings.look(str(bare)).versions == {}


def test_an_interpreter_that_is_not_there_is_told_and_the_rest_is_known():
    seen = machine_settings.look("/no/such/python")

    assert seen.versions == {}
    assert "/no/such/python" in seen.unreadable[0]
    assert seen.memory


def test_pinned_to_one_processor_the_others_still_show():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "from unstuck.probes import machine_settings; seen = machine_settings.look(); "
        "print(seen.processors_allowed, seen.processors_granted)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert told.split() == ["1", str(len(cgroups.granted(os.getpid())))]


def test_the_file_system_is_that_of_the_innermost_mount():
    assert machine.file_system(Path("/proc/self")) == "proc"
    assert machine.file_system(Path("/dev/shm"), mount_only=True) == machine.file_system(Path("/dev/shm/no-such"))


@pytest.mark.parametrize(
    ("library", "version", "known"),
    [
        ("torch", "2.0.0+cu118", True),
        ("torch", "2.0.1", False),
        ("torch", "1.7.1", True),
        ("torch", "2.13.0+cpu", False),
        ("mkl", "2023.1.0", True),
        ("mkl", "2023.2.0", False),
        ("opencv-python", "3.4.2.17", True),
        ("opencv-python-headless", "4.10.0.84", False),
        ("numpy", "1.26.4", False),
        ("torch", "unknown", False),
    ],
)
def test_a_bad_version_is_known_with_its_public_thread(library, version, known):
    notes = notes_on({library: version})

    assert bool(notes) == known
    assert all(one.about == f"{library} {version}" and "#" in one.source for one in notes)


def test_nothing_is_said_of_variables_that_are_not_set():
    assert said_of({}) == []
    assert [one.about for one in said_of({}, also=MISBELIEVED)] == list(MISBELIEVED)


def test_a_variable_is_explained_by_its_value():
    (one,), (eight,) = said_of({"OMP_NUM_THREADS": "1"}), said_of({"OMP_NUM_THREADS": "8"})

    assert "one thread" in one.text
    assert "8 threads" in eight.text
    assert said_of({"OMP_PROC_BIND": "false"})[0].text == "binds nothing"


@pytest.mark.scenario  # all of torch is read
def test_torch_does_not_know_the_variable_for_its_sharing_strategy():
    """Neither its Python nor its libraries. What we say of it rests on that."""
    place = next(Path(entry, "torch") for entry in sys.path if Path(entry, "torch", "version.py").is_file())
    found = subprocess.run(
        ["grep", "-rl", "TORCH_SHARING_STRATEGY", place], capture_output=True, text=True, check=False
    )

    assert found.stdout == ""
    assert "does nothing" in said_of({"TORCH_SHARING_STRATEGY": "file_system"})[0].text


@pytest.mark.scenario
@pytest.mark.parametrize(("workers", "told"), [(0, True), (1, False)])
def test_the_fault_handler_of_python_is_silent_in_a_worker(script, workers, told):
    """As we say of PYTHONFAULTHANDLER: torch's own handler stands in its place there."""
    ended = subprocess.run(
        [sys.executable, script(CRASHING), str(workers)],
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ("in __getitem__" in ended.stderr) == told
    assert ("Unexpected segmentation fault encountered in worker" in ended.stderr) != told


@pytest.mark.scenario
def test_binding_threads_binds_the_process_that_imports_torch():
    """As we say of OMP_PROC_BIND. Only where there is more than one processor to lose."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor is all there is")
    told = subprocess.run(
        [sys.executable, "-c", "import os, torch; print(len(os.sched_getaffinity(0)))"],
        env={**os.environ, "OMP_PROC_BIND": "close"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert told == "1\n"
