# expect: wandb-init-timeout
# outside: nothing
"""Two ranks; the first one sets up wandb, cannot reach its server and gives up, while the other waits in a barrier."""

import datetime
import os
import socket
import tempfile

import torch
import torch.distributed as dist
from torch.multiprocessing import start_processes


def rank_main(rank, folder, address):
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=60)
    )
    if rank == 0:
        os.environ.update(WANDB_BASE_URL=address, WANDB_API_KEY="0" * 40, WANDB_DIR=folder, WANDB_SILENT="true")
        import wandb

        wandb.init(project="pair", settings=wandb.Settings(init_timeout=1))
    dist.barrier()
    total = torch.ones(1)
    dist.all_reduce(total)
    dist.destroy_process_group()


def main():
    with tempfile.TemporaryDirectory() as folder:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        start_processes(rank_main, args=(folder, address), nprocs=2, start_method="fork")


if __name__ == "__main__":
    main()
