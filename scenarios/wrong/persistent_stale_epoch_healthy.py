# expect: healthy
"""The same curriculum with persistent workers. The epoch lies in shared memory, so that every copy sees it."""

import torch
from torch.utils.data import DataLoader, Dataset


class Excerpts(Dataset):
    def __init__(self, songs, epochs):
        self.songs = songs
        self.epochs = epochs
        self.calls = 0  # of set_epoch, which only the main process makes
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch):
        self.calls += 1
        self.epoch.fill_(epoch)

    def __len__(self):
        return len(self.songs)

    def __getitem__(self, index):
        length = 100 * (int(self.epoch) + 1) // self.epochs
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
    excerpts = Excerpts(torch.rand(48, 100), epochs=4)
    loader = DataLoader(excerpts, batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    fit(torch.nn.Linear(100, 100), excerpts, loader, epochs=4)
