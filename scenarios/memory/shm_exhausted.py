# expect: shm-exhausted (core)
# environment: shm=24M
"""Large batches in a container with the shared memory that Docker gives by default, or less."""

import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, clip):
        return torch.rand(3, 16, 64, 64)


def main():
    encoder = torch.nn.Conv3d(3, 2, 3)
    for clips in DataLoader(Clips(), batch_size=8, num_workers=2, prefetch_factor=4):
        encoder.zero_grad()
        encoder(clips).mean().backward()
        for weight in encoder.parameters():
            weight.data -= 0.01 * weight.grad


if __name__ == "__main__":
    main()
