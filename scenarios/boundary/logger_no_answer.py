# expect: logger-no-answer
# outside: nothing
"""The epoch's summary is posted to a chat hook without a time limit; after the second epoch the hook stays silent."""

import signal
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch.utils.data import DataLoader

POSTS = []


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        POSTS.append(self.rfile.read(int(self.headers["Content-Length"])))
        if len(POSTS) > 1:
            threading.Event().wait()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def notify(address, text):
    urllib.request.urlopen(address, text.encode()).close()


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    centre = torch.zeros(8)
    for epoch in range(4):
        for rows in DataLoader(torch.rand(160, 8), batch_size=8):
            centre += 0.1 * (rows.mean(0) - centre)
        notify(f"http://127.0.0.1:{server.server_port}/hook", f"epoch {epoch} done")


if __name__ == "__main__":
    main()
