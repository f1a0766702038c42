# expect: rendezvous-peer-missing
# outside: nothing
"""Four ranks are wanted and three are started; they give up waiting for the fourth."""

import datetime
import tempfile

import torch
import torch.distributed as dist

WORLD = 4


def evaluate(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=WORLD, timeout=datetime.timedelta(seconds=2)
    )
    score = torch.rand(1)
    dist.all_reduce(score)
    print("rank", rank, "score", float(score) / WORLD, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(evaluate, (folder,), nprocs=WORLD - 1, start_method="fork")
