# expect: shm-exhausted
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
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)
    for clips in DataLoader(Clips(), batch_size=8, num_workers=2, prefetch_factor=4):
        optimizer.zero_grad()
        encoder(clips).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
