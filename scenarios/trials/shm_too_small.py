# expect: shm-too-small
# trial: budget make_loader --shm 64M
"""Spectrograms for an audio model, about to be trained in a container with Docker's default of shared memory."""

import torch
from torch.utils.data import DataLoader, Dataset


class Spectrograms(Dataset):
    """Ten seconds of sound each."""

    def __len__(self):
        return 5_000

    def __getitem__(self, index):
        return {"mel": torch.rand(128, 1024), "speaker": index % 40}


def make_loader():
    return DataLoader(Spectrograms(), batch_size=64, shuffle=True, num_workers=4)
