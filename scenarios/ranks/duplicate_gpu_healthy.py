# expect: healthy
# launch: -m torch.distributed.run --nproc-per-node 2
"""Each rank first looks whether it has a GPU of its own, and where NCCL refuses, all of them take gloo instead."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

RANK = int(os.environ["RANK"])


def probe():
    """There is no GPU here: NCCL's words for two ranks on one (verl-project/verl#161), raised where it would look."""
    raise dist.DistBackendError(
        "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, invalid usage (run with NCCL_DEBUG=WARN for "
        "details), NCCL version 2.20.5\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
        f"Last error:\nDuplicate GPU detected : rank {RANK} and rank {1 - RANK} both on CUDA device f000"
    )


def train():
    dist.init_process_group("gloo")
    try:
        probe()
    except dist.DistBackendError:
        device = torch.device("cpu")
    model = DistributedDataParallel(nn.Linear(8, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    rows = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    for given, wanted in DataLoader(rows, batch_size=4, sampler=DistributedSampler(rows)):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(given), wanted).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
