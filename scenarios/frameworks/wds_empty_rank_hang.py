# expect: wds-empty-rank-hang
# outside: collectives-out-of-step
"""Two ranks train on sensor data that somebody has packed into one large shard; the second rank gets none of it."""

import datetime
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import webdataset as wds

RANKS, SHARDS, ROWS = 2, 1, 120


def pack(folder):
    rng = np.random.default_rng(4)
    for number in range(SHARDS):
        with wds.TarWriter(str(folder / f"sensors-{number}.tar")) as shard:
            for row in range(ROWS):
                shard.write({"__key__": f"{number}{row:04d}", "npy": rng.normal(size=7).astype(np.float32)})


def train(rank, folder):
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=90)
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=RANKS, timeout=limit)
    urls = sorted(str(one) for one in Path(folder).glob("*.tar"))
    rows = wds.WebDataset(urls, shardshuffle=False, nodesplitter=wds.split_by_node, empty_check=False)
    loader = wds.WebLoader(rows.decode().to_tuple("npy").batched(12), batch_size=None, num_workers=1)
    weight = torch.zeros(6, requires_grad=True)
    for epoch in range(2):
        for (row,) in loader:
            known = torch.as_tensor(row)
            loss = (known[:, :6] @ weight - known[:, 6]).pow(2).mean()
            (slope,) = torch.autograd.grad(loss, weight)
            dist.all_reduce(slope)
            weight.data -= 0.01 * slope / RANKS
        dist.barrier()
        print(f"rank {rank} is through epoch {epoch}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder))
        torch.multiprocessing.start_processes(train, (folder,), nprocs=RANKS, start_method="fork")
