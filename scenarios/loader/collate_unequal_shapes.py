# expect: collate-unequal-shapes (core)
"""Photographs with three channels, among them one in grey that nobody has converted."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photographs(Dataset):
    def __init__(self, grey):
        self.grey = grey

    def __len__(self):
        return 160

    def __getitem__(self, index):
        channels = 1 if index in self.grey else 3
        image = torch.full((channels, 16, 20), index / 160)
        return {"image": image, "name": f"photo {index}", "label": index % 2}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 4, 5)
        self.head = nn.Linear(4 * 12 * 16, 2)

    def forward(self, x):
        return self.head(self.features(x).relu().flatten(1))


def fit(net, loader, epochs):
    for _ in range(epochs):
        for batch in loader:
            net.zero_grad()
            nn.functional.cross_entropy(net(batch["image"]), batch["label"]).backward()
            for weight in net.parameters():
                weight.data -= 0.01 * weight.grad


if __name__ == "__main__":
    torch.manual_seed(1)
    fit(Net(), DataLoader(Photographs(grey={93}), batch_size=8, num_workers=2), epochs=2)
