# expect: healthy
"""The epoch's summary is posted to a chat hook that takes its time, and answers."""

import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch.utils.data import DataLoader


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.5)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def notify(address, text):
    urllib.request.urlopen(address, text.encode(), timeout=30).close()


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    centre = torch.zeros(8)
    for epoch in range(4):
        for rows in DataLoader(torch.rand(320, 8), batch_size=8):
            centre += 0.1 * (rows.mean(0) - centre)
            time.sleep(0.1)
        notify(f"http://127.0.0.1:{server.server_port}/hook", f"epoch {epoch} done")


if __name__ == "__main__":
    main()
