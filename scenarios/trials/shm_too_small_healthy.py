# expect: healthy
# trial: budget make_loader --shm 64M --memory 8G
"""The same container and the same workers, with spectrograms that are cut to a second and kept in 16 bits."""

import torch
from torch.utils.data import DataLoader, Dataset


class Spectrograms(Dataset):
    """One second of sound each."""

    def __len__(self):
        return 5_000

    def __getitem__(self, index):
        return {"mel": torch.rand(128, 104).half(), "speaker": index % 40}


def make_loader():
    return DataLoader(Spectrograms(), batch_size=64, shuffle=True, num_workers=4)
