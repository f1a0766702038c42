"""Storage that a cluster reads from: it can be slow, and it can kill whoever reads."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections import Counter
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil


class Storage(SimpleHTTPRequestHandler):
    """Serves ranges. A file in `deadly` kills whoever asks for its middle, one in `slow` waits for `go` before it."""

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        size = path.stat().st_size
        first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "bytes=0-")).groups()
        begin, end = int(first), min(int(last or size), size - 1)
        self.server.asked[path.name] += 1
        if begin > 0:
            self.middle(path.name)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{end}/{size}")
        self.send_header("Content-Length", str(end - begin + 1))
        self.end_headers()
        self.wfile.write(path.read_bytes()[begin : end + 1])

    def middle(self, name):
        if name in self.server.slow:
            self.server.waiting.release()
            self.server.go.wait(600)
        if self.server.deadly[name] > 0:
            self.server.deadly[name] -= 1
            os.kill(self.server.victim(self.reader()), signal.SIGKILL)

    def reader(self):
        """The process at the other end."""
        port = self.client_address[1]
        return next(
            one.pid for one in psutil.net_connections("tcp") if one.laddr.port == port and one.pid != os.getpid()
        )

    def log_message(self, *words):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):
            super().handle()


def parent(pid):
    return psutil.Process(pid).ppid()


def itself(pid):
    return pid


def serving(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Storage, directory=folder))
    server.daemon_threads = True
    server.deadly, server.asked, server.slow, server.victim = Counter(), Counter(), set(), itself
    server.go, server.waiting = threading.Event(), threading.Semaphore(0)
    server.address = f"http://127.0.0.1:{server.server_port}"
    return server
