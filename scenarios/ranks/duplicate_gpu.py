# expect: duplicate-gpu
# launch: -m torch.distributed.run --nproc-per-node 2
# outside: nothing
"""Two ranks, and nothing that puts each on a GPU of its own: both take the first, and NCCL refuses at the first barrier."""

import os
from unittest.mock import Mock

import torch
import torch.distributed as dist
from torch import nn

RANK = int(os.environ["RANK"])
# There is no GPU here: these are NCCL's words for two ranks on one (verl-project/verl#161), raised where it would look.
SAME = (
    "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, invalid usage (run with NCCL_DEBUG=WARN for "
    "details), NCCL version 2.20.5\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
    f"Duplicate GPU detected : rank {RANK} and rank {1 - RANK} both on CUDA device f000"
)
dist.barrier = Mock(side_effect=dist.DistBackendError(SAME))


def train():
    dist.init_process_group("gloo")
    model = nn.Linear(8, 1)
    dist.barrier()
    model(torch.randn(4, 8)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
