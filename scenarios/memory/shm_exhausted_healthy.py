# expect: healthy
# environment: shm=96M
"""Shared memory is small and well used, but it suffices: what is in it is taken out again."""

import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, clip):
        return torch.rand(3, 16, 64, 64)


if __name__ == "__main__":
    encoder = torch.nn.Conv3d(3, 2, 3)
    for clips in DataLoader(Clips(), batch_size=8, num_workers=2, prefetch_factor=4):
        encoder.zero_grad()
        encoder(clips).mean().backward()
        for weight in encoder.parameters():
            weight.data -= 0.01 * weight.grad
    print("all clips seen")
