# expect: worker-segfault (core)
"""Recordings are read by a small native library; one entry of its table was never made an address."""

import ctypes

import torch
from torch.utils.data import DataLoader, Dataset

LENGTH = 256


class Recordings(Dataset):
    """Keeps all sound in one buffer, and the address at which each recording begins."""

    def __init__(self, count):
        self.sound = ctypes.create_string_buffer(bytes(range(256)) * count)
        start = ctypes.addressof(self.sound)
        self.addresses = [start + LENGTH * number for number in range(count)]
        self.addresses[131] = LENGTH * 131  # still an offset

    def __len__(self):
        return len(self.addresses)

    def samples(self, address):
        return ctypes.string_at(address, LENGTH)

    def __getitem__(self, number):
        raw = bytearray(self.samples(self.addresses[number]))
        return torch.frombuffer(raw, dtype=torch.uint8).float() / 255


def train(epochs=2):
    model = torch.nn.Sequential(torch.nn.Linear(LENGTH, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Recordings(240), batch_size=12, num_workers=2)
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).pow(2).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    train()
