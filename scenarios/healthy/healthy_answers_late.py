# expect: healthy
"""A reward server takes 14 seconds to score one of the batches; the loop waits for its answer and goes on."""

import json
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch.utils.data import DataLoader, TensorDataset

SLOW = 5  # the batch whose score takes long


class Scores(BaseHTTPRequestHandler):
    def do_POST(self):
        step = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["step"]
        time.sleep(14 if step == SLOW else 0)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"score": 1.0 / (1 + step)}).encode())

    def log_message(self, *_):
        pass


def score(address, step):
    request = urllib.request.Request(address, json.dumps({"step": step}).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["score"]


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scores)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.randn(320, 16)), batch_size=32)):
        loss = model(rows).mean() * score(address, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
