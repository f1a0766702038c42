# expect: silent-rank-data-stall (core)
"""Two ranks with a loader each: one sample of the second rank's lies on storage that has stopped to answer."""

import datetime
import os
import tempfile
from pathlib import Path

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Recordings(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.raw"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with self.files[index].open("rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).float()


def write(folder):
    for number in range(120):
        (folder / f"{number:03}.raw").write_bytes(bytes(16))
    (folder / "081.raw").unlink()
    os.mkfifo(folder / "081.raw")  # stands for a mount whose server is gone: opening it waits for ever


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    data = Recordings(Path(folder))
    sampler = DistributedSampler(data, world, rank, shuffle=False)
    model = DistributedDataParallel(nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, rows in enumerate(DataLoader(data, batch_size=4, sampler=sampler, num_workers=2)):
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
        print("rank", rank, "step", step, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        torch.multiprocessing.start_processes(train, (2, name), nprocs=2, start_method="fork")
