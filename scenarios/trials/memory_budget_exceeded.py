# expect: memory-budget-exceeded (core)
# trial: budget make_loader --workers 32 --batch 32 --prefetch 4 --memory 4G
"""CT volumes that work on the workstation: what would 32 workers with batches of 32 take on a node with 4 GiB for it?"""

import torch
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    """Voxels of 16 bits, made 32-bit numbers between 0 and 1."""

    def __len__(self):
        return 400

    def __getitem__(self, index):
        raw = torch.randint(-1000, 2000, (1, 64, 96, 96), dtype=torch.int16)
        return (raw.float() + 1000) / 3000, index % 2


def make_loader():
    return DataLoader(Scans(), batch_size=2, num_workers=2)
