# expect: healthy
# trial: budget make_loader --workers 4 --batch 8 --prefetch 2 --memory 4G
"""The same volumes with settings that fit: 4 workers, batches of 8."""

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
