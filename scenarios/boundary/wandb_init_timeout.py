# expect: wandb-init-timeout
"""A node without a way out: wandb.init asks a tracking server that takes the connection and never answers."""

import os
import shutil
import signal
import socket
import tempfile

import torch
import wandb
from torch.utils.data import DataLoader


def main():
    folder = tempfile.mkdtemp()

    def end(*_):
        shutil.rmtree(folder)
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.alarm(150)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        os.environ.update(WANDB_BASE_URL=address, WANDB_API_KEY="0" * 40, WANDB_DIR=folder, WANDB_SILENT="true")
        with wandb.init(project="night", config={"rate": 0.1}) as run:
            weight = torch.zeros(2)
            for rows in DataLoader(torch.rand(64, 2), batch_size=8):
                weight -= 0.1 * (weight - rows.mean(0))
                run.log({"weight": weight.mean().item()})


if __name__ == "__main__":
    main()
