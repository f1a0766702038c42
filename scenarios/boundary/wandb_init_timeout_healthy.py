# expect: healthy
"""The same node without a way out: wandb is set to offline, so that nobody asks the server."""

import os
import socket
import tempfile
import time

import torch
import wandb
from torch.utils.data import DataLoader


def main():
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryDirectory() as folder:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        os.environ.update(WANDB_BASE_URL=address, WANDB_API_KEY="0" * 40, WANDB_DIR=folder, WANDB_SILENT="true")
        with wandb.init(project="night", config={"rate": 0.1}, mode="offline") as run:
            weight = torch.zeros(2)
            for rows in DataLoader(torch.rand(64, 2), batch_size=8):
                weight -= 0.1 * (weight - rows.mean(0))
                time.sleep(0.1)
                run.log({"weight": weight.mean().item()})


if __name__ == "__main__":
    main()
