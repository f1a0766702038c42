# expect: ddp-uneven-batches
# outside: nothing
"""One of four ranks simulates fewer games than the others; it leaves when they are played, and the others fall."""

import datetime
import tempfile

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Games(Dataset):
    """As many as this rank was asked for."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        board = torch.full((8,), float(index % 11))
        return board, board.sum()[None]


def run(rank, world, meeting):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=meeting, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    shares = [12, 12, 9, 12]
    games = DataLoader(Games(shares[rank]), batch_size=3)
    network = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.Adam(network.parameters())
    for epoch in range(2):
        losses = []
        for boards, target in games:
            loss = nn.functional.l1_loss(network(boards), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        print(f"rank {rank} epoch {epoch}: {sum(losses) / len(losses):.3f}", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(run, (4, f"file://{folder}/ranks"), nprocs=4, start_method="fork")


if __name__ == "__main__":
    main()
