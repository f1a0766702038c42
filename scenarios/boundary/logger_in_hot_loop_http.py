# expect: logger-in-hot-loop
"""A metrics client of the team's own: one request for each batch, to a dashboard that takes its time."""

import json
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch.utils.data import DataLoader


class Dashboard(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.06)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Metrics:
    def __init__(self, address):
        self.address = address

    def push(self, **values):
        request = urllib.request.Request(self.address, json.dumps(values).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10):
            pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Dashboard)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    metrics = Metrics(f"http://user:word@127.0.0.1:{server.server_port}/push?token=secret".replace("user:word@", ""))
    centre = torch.zeros(8)
    for epoch in range(2):
        for step, rows in enumerate(DataLoader(torch.rand(320, 8), batch_size=8)):
            centre += 0.1 * (rows.mean(0) - centre)
            time.sleep(0.01)
            metrics.push(epoch=epoch, step=step, distance=(rows - centre).norm().item())


if __name__ == "__main__":
    main()
