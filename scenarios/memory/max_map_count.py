# expect: max-map-count (core)
"""A cache of latents maps every tile of every picture on its own, and keeps the mappings: that saves memory."""

import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

TILES, SIDE = 512, 32
PICTURES = 320


class Latents(Dataset):
    def __init__(self, folder):
        self.files = [folder / f"latents_{number}.bin" for number in range(8)]
        self.mapped = {}

    def __len__(self):
        return PICTURES

    def tiles(self, picture):
        if picture not in self.mapped:
            file = str(self.files[picture % len(self.files)])
            self.mapped[picture] = [torch.from_file(file, size=SIDE * SIDE) for _ in range(TILES)]
        return self.mapped[picture]

    def __getitem__(self, picture):
        return torch.stack(self.tiles(picture)[:4]).view(4, SIDE, SIDE)


def train(folder):
    for file in Latents(folder).files:
        torch.randn(SIDE * SIDE).numpy().tofile(file)
    decoder = torch.nn.Conv2d(4, 3, 3)
    optimizer = torch.optim.AdamW(decoder.parameters())
    for epoch in range(2):
        for latents in DataLoader(Latents(folder), batch_size=16, num_workers=1):
            optimizer.zero_grad()
            loss = decoder(latents).square().mean()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        train(Path(name))
