# expect: healthy
"""The same filtered corpus on two ranks, repeated without end: both do the number of steps they agreed on."""

import datetime
import tempfile
from itertools import islice

import datasets
import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from datasets.distributed import split_dataset_by_node
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

REVIEWS = 256
STEPS = 12


def is_long_enough(review):
    return review["length"] >= 40


def reviews():
    """Later shards are of another site, whose reviews are shorter."""
    lengths = [100 if number < 3 * REVIEWS // 4 else 10 for number in range(REVIEWS)]
    rows = {"length": lengths, "stars": [float(number % 5) for number in range(REVIEWS)]}
    return datasets.Dataset.from_dict(rows).to_iterable_dataset(num_shards=4)


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    endless = reviews().filter(is_long_enough).repeat(None)
    own = split_dataset_by_node(endless, rank=rank, world_size=world).with_format("torch")
    loader = DataLoader(own, batch_size=16)
    model = DistributedDataParallel(nn.Linear(1, 1))
    for batch in islice(loader, STEPS):
        loss = nn.functional.mse_loss(model(batch["length"][:, None].float() / 100), batch["stars"][:, None])
        loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight.sub_(0.1 * weight.grad)
                weight.grad = None
    dist.barrier()
    print("rank", rank, "is done", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
