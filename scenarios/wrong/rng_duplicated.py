# expect: rng-duplicated
"""Images with noise and flips from a generator that the dataset makes once: both workers have a copy in the same state."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    def __init__(self, images, seed):
        self.images = images
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if self.rng.random() < 0.5:
            image = image[:, ::-1]
        return torch.from_numpy(image + self.rng.normal(0, 0.1, image.shape).astype(np.float32))


def main():
    dataset = Augmented(np.ones((64, 12, 12), dtype=np.float32), seed=42)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 16), torch.nn.Linear(16, 144))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        for images in loader:
            optimizer.zero_grad()
            (model(images) - images.flatten(1)).square().mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main()
