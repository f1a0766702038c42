# expect: rank-crash-cascade
# launch: -m torch.distributed.run --nproc-per-node 2
"""Rank 1 fails by itself while rank 0 writes a report; torchrun then ends rank 0 with SIGTERM: nobody outside did."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

PRICES = {"bolt": 0.2, "nut": 0.1}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rows = TensorDataset(torch.rand(640, 8))
    model = DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for (batch,) in DataLoader(rows, batch_size=16, sampler=DistributedSampler(rows)):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    if dist.get_rank() == 1:
        print(sum(PRICES[part] for part in ("bolt", "nut", "gear")))
    else:
        time.sleep(60)
    dist.barrier()


if __name__ == "__main__":
    main()
