# expect: cuda-out-of-memory
"""Attention over reports of very different lengths, on a card that a forgotten notebook uses as well."""

from unittest.mock import DEFAULT, Mock

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

# There is no GPU here: these are the words that torch has for a card of 24 GiB, raised where it would need the memory.
FULL = (
    "CUDA out of memory. Tried to allocate 3.22 GiB. GPU 0 has a total capacity of 23.57 GiB of which 2.40 GiB is free. "
    "Process 88217 has 11.31 GiB memory in use. Including non-PyTorch memory, this process has 9.86 GiB memory in use. "
    "Of the allocated memory 9.26 GiB is allocated by PyTorch, and 183.21 MiB is reserved by PyTorch but unallocated. If "
    "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)
torch.softmax = Mock(wraps=torch.softmax, side_effect=[*[DEFAULT] * 5, torch.OutOfMemoryError(FULL)])


class Reports(Dataset):
    def __init__(self):
        self.lengths = [64, 80, 64, 96, 72, 1300, 64, 64]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        return torch.randn(self.lengths[i], 32)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        return torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), dim=-1) @ x


def main():
    model = Attention()
    optimizer = torch.optim.Adam(model.parameters())
    for report in DataLoader(Reports(), batch_size=1):
        optimizer.zero_grad()
        model(report).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
