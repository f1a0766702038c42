# expect: healthy
# launch: -m torch.distributed.run --nproc-per-node 2
"""Rank 1 ends a helper program of its own with SIGTERM once it needs it no longer; both ranks train to the end."""

import subprocess

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rows = TensorDataset(torch.rand(640, 8))
    model = DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    helper = subprocess.Popen(["sleep", "600"]) if dist.get_rank() == 1 else None
    for epoch in range(4):
        sampler = DistributedSampler(rows)
        sampler.set_epoch(epoch)
        for (batch,) in DataLoader(rows, batch_size=16, sampler=sampler):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        if helper is not None and epoch == 2:
            helper.terminate()
            helper.wait()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
