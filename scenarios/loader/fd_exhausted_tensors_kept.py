# expect: fd-exhausted-tensors-kept
# environment: descriptors=96
"""Every batch is put aside whole, for the error analysis at the end of the epoch, just as it came from the worker."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SENSORS = 9


class Readings(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, i):
        signals = {f"sensor_{number}": torch.randn(32) for number in range(SENSORS)}
        return {**signals, "target": torch.tensor(i % 3)}


def train_epoch(model, optimizer, loader):
    predicted, seen = [], []
    for batch in loader:
        optimizer.zero_grad()
        scores = model(torch.cat([batch[f"sensor_{number}"] for number in range(SENSORS)], dim=1))
        nn.functional.cross_entropy(scores, batch["target"]).backward()
        optimizer.step()
        predicted.append(scores.argmax(1))
        seen.append(batch)
    return [batch for batch, guess in zip(seen, predicted, strict=True) if (guess != batch["target"]).any()]


def main():
    model = nn.Sequential(nn.Linear(32 * SENSORS, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Readings(), batch_size=32, num_workers=1)
    print("batches with mistakes:", len(train_epoch(model, optimizer, loader)))


if __name__ == "__main__":
    main()
