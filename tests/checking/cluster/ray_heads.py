"""Real Ray clusters for tests, started and ended by them alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil


class Head:
    """A Ray head that this test started, in a Python that has Ray and neither unstuck nor msgspec."""

    def __init__(self, python):
        self.folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        self.client = f"ray://127.0.0.1:{free_port()}"
        options = ["--port=0", "--num-cpus=2", "--object-store-memory=100000000", "--include-dashboard=false"]
        options += [f"--temp-dir={self.folder}", f"--ray-client-server-port={self.client.rpartition(':')[2]}"]
        self.process = subprocess.Popen(
            [python, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats", *options],
            env={**os.environ, "HOME": self.folder, "PYTHONPATH": ""},
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self.address = eventually(Path(self.folder, "ray_current_cluster").read_text, 600)
            eventually(partial(connect, self.client), 600)
        except BaseException:  # nobody else knows of it yet
            self.end()
            raise

    def processes(self):
        return [one for one in psutil.process_iter() if mentions(one, self.folder)]

    def crash(self):
        for one in self.processes():
            if one.name() in ("gcs_server", "raylet"):
                one.kill()

    def end(self):
        mine = self.processes()
        self.process.terminate()
        psutil.wait_procs(mine, 5)
        for one in mine:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Node:
    """One more, on the same machine."""

    def __init__(self, python, head):
        options = [f"--address={head.address}", "--num-cpus=1", "--object-store-memory=100000000"]
        self.process = subprocess.Popen(
            [python, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", *options],
            env={**os.environ, "HOME": head.folder, "PYTHONPATH": ""},
            cwd=head.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert any("Ray runtime started" in line for line in self.process.stdout)

    def lose(self):
        for one in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.communicate()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def connect(address):
    host, port = address.removeprefix("ray://").split(":")
    socket.create_connection((host, int(port))).close()
    return True


def eventually(look, seconds):
    """What it gives, once it does not raise and is something."""
    limit = time.monotonic() + seconds
    while True:
        try:
            found = look()
        except OSError:
            found = None
        if found or time.monotonic() > limit:
            assert found, f"not within {seconds} s"
            return found
        time.sleep(0.1)


def mentions(process, folder):
    try:
        return process.cwd().startswith(folder) or any(folder in word for word in process.cmdline())
    except psutil.Error:
        return False
