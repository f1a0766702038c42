# expect: healthy
"""Pictures with as many objects, whose boxes are packed into one tensor and cut apart again where they are used."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

OBJECTS = 4


class Pictures(Dataset):
    def __len__(self):
        return 1280

    def __getitem__(self, picture):
        boxes = torch.tensor([[1.0, 2.0, 3.0, 4.0] for _ in range(OBJECTS)])
        return torch.full((3, 8, 8), float(picture)), boxes


def packed(samples):
    pictures, boxes = zip(*samples, strict=True)
    return torch.stack(pictures), torch.cat(boxes), [len(one) for one in boxes]


def main():
    detector = torch.nn.Linear(192, 4)
    optimizer = torch.optim.SGD(detector.parameters(), lr=1e-6)
    for pictures, boxes, counts in DataLoader(Pictures(), batch_size=16, num_workers=2, collate_fn=packed):
        wanted = torch.stack([one[0] for one in boxes.split(counts)])
        optimizer.zero_grad()
        (detector(pictures.flatten(1)) - wanted).square().mean().backward()
        optimizer.step()
        time.sleep(0.025)  # what an accelerator would take


if __name__ == "__main__":
    main()
