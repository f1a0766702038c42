# expect: healthy
"""Rows are collected while an epoch runs; when it ends, a thread sends them to a slow server and the next epoch begins."""

import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch.utils.data import DataLoader

import unstuck


class Tracker(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.4)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Uploading:
    def __init__(self, address):
        self.address = address

    def send(self, rows):
        urllib.request.urlopen(urllib.request.Request(self.address, repr(rows).encode()), timeout=10).close()


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Tracker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    uploading = unstuck.nonblocking(Uploading(f"http://127.0.0.1:{server.server_port}/rows"), limit=5)
    loader = DataLoader(torch.rand(400, 8), batch_size=8)
    centre = torch.zeros(8)
    for _ in range(4):
        rows = []
        for batch in loader:
            centre += 0.1 * (batch.mean(0) - centre)
            time.sleep(0.01)
            rows.append((batch - centre).norm().item())
        uploading.send(rows)
    uploading.close()


if __name__ == "__main__":
    main()
