# expect: rank-crash-cascade (core)
"""Three ranks train; on one of them a label is outside the table of weights, and all of them end with an error."""

import datetime
import tempfile

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

WEIGHTS = {0: 1.0, 1: 0.5, 2: 0.25}


class Reviews(Dataset):
    """Texts as vectors, with a label from 0 to 2; somebody has labelled one of them 3."""

    def __len__(self):
        return 120

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(16, generator=generator), 3 if index == 71 else index % 3


def weighted(loss, labels):
    return (loss * torch.tensor([WEIGHTS[int(label)] for label in labels])).mean()


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(minutes=5)
    )
    reviews = Reviews()
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(reviews, batch_size=4, sampler=DistributedSampler(reviews, shuffle=False))
    for texts, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(texts), labels, reduction="none")
        weighted(loss, labels).backward()
        optimizer.step()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (3, folder), nprocs=3, start_method="fork")
