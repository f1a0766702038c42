"""What a thread that stands in a system call waits for: real children, each in another kind of wait."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys

import pytest

from stuck import wait_for
from unstuck.probes import kernel, processes, waits

pytestmark = pytest.mark.skipif(not kernel.SYSCALLS, reason="needs the numbers of this machine's system calls")


@contextlib.contextmanager
def child(code, *calls, **options):
    """A small program, once its main thread stands in one of these calls."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **options}
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", code], **options) as process:
        try:
            wait_for(lambda: kernel.call(process.pid).name in calls and kernel.stat(process.pid).state == "S")
            yield process
        finally:
            process.kill()


def awaited(process, *family):
    return waits.awaited(process.pid, kernel.call(process.pid), [process.pid, *family])


def children(pid):
    everybody = map(int, filter(str.isdigit, os.listdir("/proc")))
    return [one for one in everybody if (seen := kernel.stat(one)) is not None and seen.parent == pid]


def task(process):
    """Its main thread, as a look shows it."""
    (seen,) = processes.second_look({}, [process.pid])
    return seen.main_task


@pytest.mark.parametrize("name", ["{folder}/fifo", "fifo"], ids=["absolute", "relative"])
def test_opening_a_fifo(tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    path = name.format(folder=tmp_path)

    with child(f"open({path!r})", "openat", cwd=tmp_path) as process:
        found = awaited(process)

    assert (found.kind, found.name, found.holders) == ("fifo", path, [])


def test_reading_a_fifo_that_is_open(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    both = os.open(tmp_path / "fifo", os.O_RDWR)

    with child("import os; os.read(0, 1)", "read", stdin=both) as process:
        found = awaited(process)

    os.close(both)
    assert (found.kind, found.name, found.descriptor) == ("fifo", str(tmp_path / "fifo"), 0)


def test_reading_from_a_pipe_names_who_could_write(tmp_path):
    with child("import os; os.read(0, 1)", "read", stdin=subprocess.PIPE) as process:
        found = awaited(process)

    assert (found.kind, found.descriptor) == ("pipe", 0)
    assert [one.pid for one in found.holders] == [os.getpid()]
    assert "python" in found.holders[0].command


def test_writing_to_a_full_pipe_names_who_should_read(tmp_path):
    with child("import os\nwhile True: os.write(1, bytes(65536))", "write", stdout=subprocess.PIPE) as process:
        found = awaited(process)
        process.stdout.close()

    assert (found.kind, found.descriptor) == ("pipe", 1)
    assert [one.pid for one in found.holders] == [os.getpid()]


def test_a_pipe_that_nobody_else_has_open(tmp_path):
    with child("import os; reading, writing = os.pipe(); os.read(reading, 1)", "read") as process:
        found = awaited(process)

    assert (found.kind, found.holders) == ("pipe", [])


def test_receiving_from_a_connection_names_both_ends():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"

        with child(code, "recvfrom") as process:
            found = awaited(process)

    assert found.kind == "socket"
    assert found.name.startswith("tcp 127.0.0.1:")
    assert found.name.endswith(f" -> 127.0.0.1:{port} (ESTABLISHED)")


def test_receiving_from_a_local_socket(tmp_path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        code = f"import socket; one = socket.socket(socket.AF_UNIX); one.connect({path!r}); one.recv(1)"

        with child(code, "recvfrom") as process:
            found = awaited(process)

    assert found.kind == "socket"
    assert found.name


@pytest.mark.parametrize(
    ("limit", "limited"), [("60", True), ("None", False), ("-1", False)], ids=["for a minute", "for ever", "below zero"]
)
@pytest.mark.parametrize("way", ["poll", "select"])
def test_polling_tells_what_for_and_whether_it_has_an_end(way, limit, limited):
    code = {
        "poll": f"import select; one = select.poll(); one.register(0, 1); one.poll({limit} and {limit} * 1000)",
        "select": f"import select; select.select([0], [], [], {'None' if limit == '-1' else limit})",
    }[way]

    with child(code, "poll", "ppoll", "select", "pselect6", stdin=subprocess.PIPE) as process:
        found = awaited(process, os.getpid())
        seen = task(process)

    assert (found.kind, found.descriptor) == ("pipe", 0)
    assert [one.pid for one in found.holders] == [os.getpid()]
    assert seen.limited is limited


def test_an_epoll_tells_what_it_waits_for():
    code = "import select; one = select.epoll(); one.register(0, select.EPOLLIN); one.poll()"

    with child(code, "epoll_wait", "epoll_pwait", stdin=subprocess.PIPE) as process:
        found = awaited(process, os.getpid())

    assert (found.kind, found.descriptor) == ("pipe", 0)


def test_waiting_for_a_child_names_its_command():
    with child("import subprocess; subprocess.run(['sleep', '47'])", "wait4", "waitid") as process:
        (sleeper,) = children(process.pid)
        found = awaited(process, sleeper)
        os.kill(sleeper, 9)

    assert (found.kind, found.name) == ("child", "sleep 47")
    assert [one.pid for one in found.holders] == [sleeper]


def test_the_child_that_is_waited_for_is_named_among_several():
    code = "import os, time\nchildren = [os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', str(47 + n)) for n in range(3)]\n"
    with child(f"{code}os.waitpid(children[1], 0)", "wait4", "waitid") as process:
        found = awaited(process, *children(process.pid))
        for one in children(process.pid):
            os.kill(one, 9)

    assert (found.kind, found.name, len(found.holders)) == ("child", "sleep 48", 1)


@pytest.mark.parametrize(("way", "call"), [("flock", "flock"), ("lockf", "fcntl")])
def test_waiting_for_a_locked_file_names_it(tmp_path, way, call):
    path = tmp_path / "locked"
    with path.open("w") as file:
        getattr(fcntl, way)(file, fcntl.LOCK_EX)

        with child(f"import fcntl; fcntl.{way}(open({str(path)!r}, 'w'), fcntl.LOCK_EX)", call) as process:
            found = awaited(process)

    assert (found.kind, found.name) == ("file", str(path))


def test_reading_from_a_terminal():
    terminal, end = os.openpty()

    with child("import os; os.read(0, 1)", "read", stdin=end) as process:
        found = awaited(process)

    os.close(terminal)
    os.close(end)
    assert found.kind == "terminal"


def test_a_sleep_waits_for_nothing():
    with child("import time; time.sleep(60)", "clock_nanosleep", "nanosleep", "select", "pselect6") as process:
        found, seen = awaited(process), task(process)

    assert found is None
    assert seen.syscall == "clock_nanosleep"


def test_a_process_that_is_gone_waits_for_nothing():
    with child("import os; os.read(0, 1)", "read", stdin=subprocess.PIPE) as process:
        call = kernel.call(process.pid)
        process.kill()
        process.wait()

        assert waits.awaited(process.pid, call, [process.pid]) is None
