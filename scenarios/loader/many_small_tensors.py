# expect: many-small-tensors
"""A detection set whose boxes, labels and flags are a tensor each, for every object of every picture."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

OBJECTS = 4


class Pictures(Dataset):
    def __len__(self):
        return 20_000

    def __getitem__(self, picture):
        objects = [
            {"box": torch.tensor([1.0, 2.0, 3.0, 4.0]), "label": torch.tensor(one), "crowd": torch.tensor(0)}
            for one in range(OBJECTS)
        ]
        return torch.full((3, 8, 8), float(picture)), objects


def as_lists(samples):
    pictures, objects = zip(*samples, strict=True)
    return torch.stack(pictures), list(objects)


def main():
    detector = torch.nn.Linear(192, 4)
    optimizer = torch.optim.SGD(detector.parameters(), lr=1e-6)
    end = time.monotonic() + 5
    for pictures, objects in DataLoader(Pictures(), batch_size=16, num_workers=2, collate_fn=as_lists):
        wanted = torch.stack([picture[0]["box"] for picture in objects])
        optimizer.zero_grad()
        (detector(pictures.flatten(1)) - wanted).square().mean().backward()
        optimizer.step()
        if time.monotonic() > end:  # the time this job was given
            return


if __name__ == "__main__":
    main()
