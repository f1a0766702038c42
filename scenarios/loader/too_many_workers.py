# expect: too-many-workers
"""num_workers was copied from a machine with many processors, and every sample has to be computed."""

import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Spectrograms(Dataset):
    def __len__(self):
        return 20_000

    def __getitem__(self, clip):
        wave = np.random.default_rng(clip).standard_normal(16_000)
        for _ in range(16):
            wave = np.fft.irfft(np.fft.rfft(wave) * 0.98, n=wave.size)
        return torch.from_numpy(wave[:64].astype(np.float32))


def main():
    torch.set_num_threads(1)
    clips = DataLoader(Spectrograms(), batch_size=4, num_workers=10)
    head = torch.nn.Linear(64, 8)
    optimizer = torch.optim.SGD(head.parameters(), lr=1e-4)
    end = time.monotonic() + 7
    for features in clips:
        optimizer.zero_grad()
        head(features).square().mean().backward()
        optimizer.step()
        if time.monotonic() > end:  # enough for a first impression
            break


if __name__ == "__main__":
    main()
