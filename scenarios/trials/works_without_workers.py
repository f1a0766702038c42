# expect: works-without-workers (core)
# trial: doctor make_loader --only no-workers,one-worker
"""A dataset with a lambda in it, and workers that are spawned: fine without workers, dead with them."""

import torch
from torch.utils.data import DataLoader, Dataset


class Readings(Dataset):
    """Sensor readings, scaled as they are read."""

    def __init__(self, count: int) -> None:
        self.values = torch.linspace(0.0, 1.0, count)
        self.scale = lambda value: value * 2.0 - 1.0

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.scale(self.values[index])


def make_loader() -> DataLoader:
    return DataLoader(Readings(512), batch_size=32, num_workers=2, multiprocessing_context="spawn")
