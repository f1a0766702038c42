# expect: healthy
# trial: doctor make_loader --only samples,no-workers
"""The same damaged volume among the others, found when the dataset is made, and left out."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def is_whole(path: Path) -> bool:
    try:
        np.load(path)
    except ValueError:
        return False
    return True


class Volumes(Dataset):
    """Small volumes, a file each."""

    def __init__(self, folder: Path) -> None:
        self.paths = [path for path in sorted(folder.glob("*.npy")) if is_whole(path)]

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
