# expect: healthy
"""Two ranks gather their predictions after every batch; the smaller last batch is padded before."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

BATCH = 8


def evaluate(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    table = TensorDataset(torch.randn(45, 6, generator=torch.Generator().manual_seed(1)))
    mine = Subset(table, range(rank, len(table), world))  # 23 rows and 22
    model = nn.Linear(6, 3)
    seen = 0
    for (rows,) in DataLoader(mine, batch_size=BATCH):
        with torch.no_grad():
            predicted = model(rows).argmax(dim=1)
        padded = nn.functional.pad(predicted, (0, BATCH - len(predicted)), value=-1)
        everybodys = [torch.empty_like(padded) for _ in range(world)]
        dist.all_gather(everybodys, padded)
        seen += sum(int((one >= 0).sum()) for one in everybodys)
    print("rank", rank, "has seen", seen, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(evaluate, (2, folder), nprocs=2, start_method="fork")
