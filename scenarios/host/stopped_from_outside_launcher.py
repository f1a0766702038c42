# expect: stopped-from-outside
# launch: -m torch.distributed.run --nproc-per-node 2
"""Preemption: the launcher is told to go and ends its ranks, which lose each other on the way."""

import os
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
    step = 0
    for epoch in range(500):
        sampler = DistributedSampler(rows)
        sampler.set_epoch(epoch)
        for (batch,) in DataLoader(rows, batch_size=16, sampler=sampler):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            step += 1
            if step == 50 and dist.get_rank() == 0:
                subprocess.run(["kill", "-TERM", str(os.getppid())], check=True)


if __name__ == "__main__":
    main()
