# expect: logger-blocks-epoch-end
"""Rows are collected while an epoch runs, and sent to the tracking server when it ends. The server is a slow one."""

import json
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch.utils.data import DataLoader


class Tracker(BaseHTTPRequestHandler):
    """Takes a while for every upload, as a server at the other end of a thin line does."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(1.5)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Uploading:
    def __init__(self, address):
        self.address, self.rows = address, []

    def on_batch_end(self, **values):
        self.rows.append(values)

    def on_epoch_end(self, epoch):
        body = json.dumps({"epoch": epoch, "rows": self.rows}).encode()
        urllib.request.urlopen(urllib.request.Request(self.address, body)).close()
        self.rows.clear()


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Tracker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    callback = Uploading(f"http://127.0.0.1:{server.server_port}/rows")
    loader = DataLoader(torch.rand(400, 8), batch_size=8)
    centre = torch.zeros(8)
    for epoch in range(4):
        for rows in loader:
            centre += 0.1 * (rows.mean(0) - centre)
            time.sleep(0.01)
            callback.on_batch_end(distance=(rows - centre).norm().item())
        callback.on_epoch_end(epoch)


if __name__ == "__main__":
    main()
