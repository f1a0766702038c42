# expect: uneven-file-assignment
"""Two ranks divide five files of measurements: one has three of them, the other is through after two and leaves."""

import tempfile
from pathlib import Path

import torch
import torch._dynamo  # each rank would import it for its optimizer
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, IterableDataset

RANKS = 2
FILES, ROWS = 5, 40


class Measurements(IterableDataset):
    def __init__(self, folder, rank):
        self.files = sorted(Path(folder).glob("*.csv"))[rank::RANKS]

    def __iter__(self):
        for file in self.files:
            for line in file.read_text().splitlines():
                yield torch.tensor([float(cell) for cell in line.split(",")])


def write(folder):
    for number in range(FILES):
        rows = (f"{number},{row / ROWS},{row % 7},{number * row % 11}\n" for row in range(ROWS))
        Path(folder, f"day-{number}.csv").write_text("".join(rows))


def train(rank, folder):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    loader = DataLoader(Measurements(folder, rank), batch_size=4)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for row in loader:
        optimizer.zero_grad()
        loss = (model(row[:, :3]).squeeze(1) - row[:, 3]).pow(2).mean()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= RANKS
        optimizer.step()
    print(f"rank {rank} is through: loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        mp.start_processes(train, args=(folder,), nprocs=RANKS, start_method="fork")
