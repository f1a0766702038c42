# expect: iterable-drop-last-per-worker
"""Sensor windows streamed by four workers, each of which throws away the end of its part because of drop_last."""

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Windows(IterableDataset):
    def __init__(self, signal, width):
        self.signal = signal
        self.width = width

    def __iter__(self):
        info = get_worker_info()
        for start in range(info.id * self.width, len(self.signal), info.num_workers * self.width):
            window = self.signal[start : start + self.width]
            yield window, window.mean()


def train(epochs=2):
    signal = torch.sin(torch.arange(400 * 20) / 9.0)
    windows = DataLoader(Windows(signal, 20), batch_size=64, num_workers=4, drop_last=True)
    model = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        for x, y in windows:
            optimizer.zero_grad()
            (model(x).squeeze(1) - y).square().mean().backward()
            optimizer.step()
        print("epoch", epoch, "done", flush=True)


if __name__ == "__main__":
    train()
