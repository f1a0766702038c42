# expect: dataloader-bound
"""An augmentation that costs far more than the model, with two workers to do it."""

import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    def __len__(self):
        return 900

    def __getitem__(self, index):
        signal = np.random.default_rng(index).standard_normal(20_000)
        for _ in range(12):
            signal = np.fft.irfft(np.fft.rfft(signal) * 0.99, n=signal.size)
        return torch.from_numpy(signal[:128].astype(np.float32))


def main():
    model = torch.nn.Linear(128, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ends = time.monotonic() + 8  # however fast the machine is
    while time.monotonic() < ends:
        for x in DataLoader(Spectra(), batch_size=8, num_workers=2):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()


if __name__ == "__main__":
    main()
