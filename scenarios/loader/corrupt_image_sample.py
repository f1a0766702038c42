# expect: corrupt-image-sample
"""A folder of JPEG files that was copied over a bad connection: one of them ends in the middle."""

import os
import tempfile

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Leaves(Dataset):
    def __init__(self, folder):
        self.paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, item):
        path = self.paths[item]
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
        return torch.from_numpy(pixels).permute(2, 0, 1) / 255, item % 3


def copy_to(folder):
    generator = np.random.default_rng(5)
    for number in range(96):
        pixels = generator.integers(0, 255, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(os.path.join(folder, f"leaf-{number:03}.jpg"), quality=85)
    cut = os.path.join(folder, "leaf-077.jpg")
    os.truncate(cut, os.path.getsize(cut) // 2)


def main():
    with tempfile.TemporaryDirectory() as folder:
        copy_to(folder)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for images, kinds in DataLoader(Leaves(folder), batch_size=8, num_workers=2):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), kinds).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
