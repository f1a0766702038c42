# expect: healthy
"""The same kind of folder with a file cut short and one that is no image: both are met, told and left out."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch.utils.data import DataLoader, Dataset, default_collate


class Plants(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, item):
        try:
            with Image.open(self.files[item]) as image:
                return torch.from_numpy(np.array(image.convert("L"), dtype=np.float32)) / 255
        except (UnidentifiedImageError, OSError) as problem:
            print(f"leaving out {self.files[item].name}: {problem}")
            return None


def present(samples):
    return default_collate([one for one in samples if one is not None])


def make(folder):
    generator = np.random.default_rng(6)
    for number in range(72):
        Image.fromarray(generator.integers(0, 255, (24, 24), dtype=np.uint8)).save(folder / f"plant{number:02}.png")
    short = (folder / "plant30.png").read_bytes()
    (folder / "plant30.png").write_bytes(short[: len(short) * 2 // 3])
    (folder / "plant31.png").write_text("<html>404 not found</html>")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(24 * 24, 1))
        optimizer = torch.optim.Adam(model.parameters())
        for images in DataLoader(Plants(sorted(Path(name).iterdir())), batch_size=8, num_workers=2, collate_fn=present):
            optimizer.zero_grad()
            model(images).pow(2).mean().backward()
            optimizer.step()
