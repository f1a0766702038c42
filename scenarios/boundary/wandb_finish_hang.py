# expect: wandb-finish-hang (core)
"""The run is tracked online. After training the link to the tracking server goes down, and finish() waits for it."""

import json
import os
import shutil
import signal
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch.utils.data import DataLoader, TensorDataset

BUCKET = {"id": "cnVu", "name": "tune", "displayName": "tune", "project": {"name": "tune", "entity": {"name": "lab"}}}
ANSWERS = {"viewer": {"id": "me", "entity": "lab", "username": "me", "flags": "{}", "teams": {"edges": []}}}


class Tracking(BaseHTTPRequestHandler):
    """Takes what begins a run, and answers nothing that comes later."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        if b"UpsertBucket" not in asked and b"Viewer" not in asked:
            threading.Event().wait()
        answer = json.dumps({"data": {**ANSWERS, "upsertBucket": {"bucket": BUCKET, "inserted": True}}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def main():
    folder = tempfile.mkdtemp()

    def end(*_):
        shutil.rmtree(folder)
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.alarm(150)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Tracking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    os.environ.update(WANDB_BASE_URL=address, WANDB_API_KEY="0" * 40, WANDB_DIR=folder, WANDB_SILENT="true")
    import wandb

    run = wandb.init(project="tune", settings=wandb.Settings(console="off", x_disable_stats=True))
    weight = torch.zeros(4, requires_grad=True)
    for (rows,) in DataLoader(TensorDataset(torch.rand(400, 4)), batch_size=8):
        loss = ((rows @ weight - 1) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            weight -= 0.05 * weight.grad
        weight.grad = None
        run.log({"loss": loss.item()})
    run.finish()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
