# expect: healthy
# environment: descriptors=96
"""The same limit, and every batch is put aside as well: but copies of it, and as it came only the newest two."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SENSORS = 9


class Readings(Dataset):
    def __len__(self):
        return 288

    def __getitem__(self, i):
        signals = {f"sensor_{number}": torch.randn(32) for number in range(SENSORS)}
        return {**signals, "target": torch.tensor(i % 3)}


if __name__ == "__main__":
    model = nn.Sequential(nn.Linear(32 * SENSORS, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters())
    seen, newest = [], []
    for batch in DataLoader(Readings(), batch_size=32, num_workers=1):
        optimizer.zero_grad()
        scores = model(torch.cat([batch[f"sensor_{number}"] for number in range(SENSORS)], dim=1))
        nn.functional.cross_entropy(scores, batch["target"]).backward()
        optimizer.step()
        seen.append({name: values.clone() for name, values in batch.items()})
        newest = [*newest, batch][-2:]
    print(len(seen), "batches of", len(seen[0]), "tensors kept")
