# expect: fails-on-sample (core)
# trial: doctor make_loader --only samples,no-workers
"""One of the volumes was cut off while it was copied: whoever loads that sample fails, with workers or without."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Volumes(Dataset):
    """Small volumes, a file each."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.npy"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.load(self.paths[index]))


def make_loader() -> DataLoader:
    folder = Path(tempfile.mkdtemp(prefix="volumes-"))
    for number in range(20):
        np.save(folder / f"patient{number:03}.npy", np.full((8, 8, 8), number, dtype=np.float32))
    damaged = folder / "patient013.npy"
    damaged.write_bytes(damaged.read_bytes()[:700])
    return DataLoader(Volumes(folder), batch_size=4, num_workers=2, shuffle=True)
