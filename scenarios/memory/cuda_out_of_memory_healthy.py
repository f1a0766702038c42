# expect: healthy
"""The program expects that a batch may not fit on the card: it catches that, and takes it in two halves."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def room_on_card(rows):
    """There is no GPU here: this is what torch says, where it would ask the driver for memory."""
    if rows > 40:
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 31.36 GiB of which 471.69 MiB is "
            "free. Including non-PyTorch memory, this process has 30.89 GiB memory in use. Of the allocated memory 29.03 "
            "GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
            "fragmentation.  See documentation for Memory Management "
        )


def step(model, rows):
    room_on_card(len(rows))
    model(rows).square().mean().backward()


if __name__ == "__main__":
    model = nn.Linear(12, 4)
    optimizer = torch.optim.Adam(model.parameters())
    for (rows,) in DataLoader(TensorDataset(torch.randn(512, 12)), batch_size=64):
        optimizer.zero_grad()
        try:
            step(model, rows)
        except torch.OutOfMemoryError:
            for half in rows.chunk(2):
                step(model, half)
        optimizer.step()
    print("done, in halves")
