# expect: healthy
"""Meters of a power grid, in four shards on two processors: each rank has its own two, and every rank the same number of
batches."""

import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import webdataset as wds

RANKS, SHARDS, HOURS = 2, 4, 30


def measure(folder):
    rng = np.random.default_rng(2)
    for number in range(SHARDS):
        with wds.TarWriter(str(folder / f"grid-{number}.tar")) as shard:
            for hour in range(HOURS):
                load = rng.normal(hour % 24, 1, 6).astype(np.float32)
                shard.write({"__key__": f"{number}-{hour:03d}", "load.npy": load})


def train(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    pattern = f"{folder}/grid-{{0..{SHARDS - 1}}}.tar"
    hours = wds.WebDataset(pattern, shardshuffle=False, nodesplitter=wds.split_by_node).decode().to_tuple("load.npy")
    loader = wds.WebLoader(hours, batch_size=6, num_workers=1)
    weight = torch.zeros(5, requires_grad=True)
    for (load,) in loader:
        loss = (load[:, :5] @ weight - load[:, 5]).pow(2).mean()
        (slope,) = torch.autograd.grad(loss, weight)
        dist.all_reduce(slope)
        weight.data -= 1e-4 * slope / RANKS
    print(f"rank {rank}: loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder))
        torch.multiprocessing.start_processes(train, (folder,), nprocs=RANKS, start_method="fork")
