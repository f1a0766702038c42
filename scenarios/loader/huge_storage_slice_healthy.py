# expect: healthy
"""The same patches, cloned before they leave the dataset: the volume stays where it is."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, study):
        volume = torch.empty(96, 320, 320)
        slab = volume[study % 96]
        slab.fill_(study / 160)
        return slab[100:116, 100:116].clone()


def train():
    loader = DataLoader(Patches(), batch_size=2, num_workers=2, collate_fn=list)
    model = torch.nn.Linear(256, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for patches in loader:
        optimizer.zero_grad()
        model(torch.stack(patches).flatten(1)).mean().backward()
        optimizer.step()
        time.sleep(0.02)  # what an accelerator would take


if __name__ == "__main__":
    train()
