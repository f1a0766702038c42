# expect: persistent-stale-epoch
"""A curriculum by epoch: longer excerpts each time. The workers persist, and never hear of the second epoch."""

import torch
from torch.utils.data import DataLoader, Dataset


class Excerpts(Dataset):
    def __init__(self, songs):
        self.songs = songs
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.songs)

    def __getitem__(self, index):
        length = 20 * (self.epoch + 1)
        excerpt = torch.zeros(100)
        excerpt[:length] = self.songs[index][:length]
        return excerpt


def fit(model, excerpts, loader, epochs):
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(epochs):
        excerpts.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            (model(batch) - batch).square().mean().backward()
            optimizer.step()
        print("epoch", epoch, "done", flush=True)


if __name__ == "__main__":
    excerpts = Excerpts(torch.rand(48, 100))
    loader = DataLoader(excerpts, batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    fit(torch.nn.Linear(100, 100), excerpts, loader, epochs=4)
