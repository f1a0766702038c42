# expect: healthy
# environment: memory=1200M container
"""The same container, and a run that stays well within it to the end."""

import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.rand(2000, 16)), batch_size=50, num_workers=2)
    head = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for _ in range(3):
        for (rows,) in loader:
            optimizer.zero_grad()
            head(rows).mean().backward()
            optimizer.step()
