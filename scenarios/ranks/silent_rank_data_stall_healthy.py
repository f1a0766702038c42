# expect: healthy
"""The second rank's storage takes a long breath in the middle of a file; the first rank waits, and both go on."""

import datetime
import os
import tempfile
import threading
import time
from pathlib import Path

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

PAUSE = 4.0


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
    os.mkfifo(folder / "081.raw")


def answer_late(folder):
    with (folder / "081.raw").open("wb") as file:
        time.sleep(PAUSE)
        file.write(bytes(16))


def train(rank, world, folder):
    torch.set_num_threads(1)
    if rank == 0:
        threading.Thread(target=answer_late, args=(Path(folder),), daemon=True).start()
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
