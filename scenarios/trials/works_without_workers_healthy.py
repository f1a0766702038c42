# expect: healthy
# trial: doctor make_loader --only no-workers,one-worker
"""The same readings and spawned workers; the scaling is a function that a worker can import."""

import torch
from torch.utils.data import DataLoader, Dataset


def scale(value: torch.Tensor) -> torch.Tensor:
    return value * 2.0 - 1.0


class Readings(Dataset):
    """Sensor readings, scaled as they are read."""

    def __init__(self, count: int) -> None:
        self.values = torch.linspace(0.0, 1.0, count)
        self.scale = scale

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.scale(self.values[index])


def make_loader() -> DataLoader:
    return DataLoader(Readings(512), batch_size=32, num_workers=2, multiprocessing_context="spawn")
