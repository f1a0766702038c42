# expect: dataloader-bound
"""Three steps run smoothly and the fourth stands still, again and again: four workers in step, each far too slow."""

import time

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Feed(IterableDataset):
    """Every worker reads its own part of a stream that answers slowly."""

    def __iter__(self):
        me = get_worker_info()
        for row in range(me.id, 240, me.num_workers):
            time.sleep(0.1)
            yield torch.full((16,), float(row))


model = torch.nn.Linear(16, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step, rows in enumerate(DataLoader(Feed(), batch_size=5, num_workers=4, prefetch_factor=1)):
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
    if step % 8 == 0:
        print("step", step, flush=True)
