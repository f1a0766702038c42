# expect: straggler-rank
"""Three ranks read slides from three disks. The disk of rank 1 is slow, so at every step two ranks wait for the third."""

import tempfile
import time

import torch
import torch._dynamo  # each rank would import it for its optimizer
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

RANKS = 3
SECONDS_PER_SLIDE = {0: 0.002, 1: 0.018, 2: 0.002}


class Slides(Dataset):
    def __init__(self, disk):
        self.disk = disk

    def __len__(self):
        return 260

    def __getitem__(self, index):
        pixels = self.read(index)
        return pixels / 255, pixels.mean()

    def read(self, index):
        time.sleep(SECONDS_PER_SLIDE[self.disk])
        return torch.full((64,), float(index % 255))


def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= RANKS


def train(rank, store):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    loader = DataLoader(Slides(disk=rank), batch_size=4, num_workers=1)
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for step, (pixels, brightness) in enumerate(loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(pixels).squeeze(1), brightness)
        loss.backward()
        average(model)
        optimizer.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step}: loss {loss.item():.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(train, args=(f"{folder}/store",), nprocs=RANKS, start_method="fork")
