# expect: straggler-rank
"""Two ranks train with DDP; the first one alone sends a picture of the weights to a server after every step."""

import tempfile
import time

import torch
import torch._dynamo  # DDP does so itself, which takes seconds: this way it is once for all ranks
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

RANKS = 2


class Board:
    def __init__(self, rank):
        self.rank = rank

    def picture(self, weights):
        if self.rank == 0:
            pixels = (weights.detach().clamp(-1, 1) * 127).to(torch.int8)
            time.sleep(0.04)  # over the network
            return pixels.numel()
        return 0


def main(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    rows = TensorDataset(torch.randn(640, 16))
    loader = DataLoader(rows, batch_size=4, sampler=DistributedSampler(rows))
    model = DistributedDataParallel(torch.nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    board, sent = Board(rank), 0
    for (batch,) in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(batch), batch).backward()
        optimizer.step()
        sent += board.picture(model.module.weight)
    print(f"rank {rank}: {sent} pixels sent", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, args=(f"{folder}/store",), nprocs=RANKS, start_method="fork")
