# expect: missing-main-guard
"""A script that was a notebook: everything stands at the top level, and the workers are spawned."""

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.tensor([index, index**2], dtype=torch.float32) / 160000


loader = DataLoader(Squares(), batch_size=40, shuffle=True, num_workers=1, multiprocessing_context="spawn")
model = torch.nn.Linear(2, 1)

for epoch in range(3):
    for batch in loader:
        model.zero_grad()
        loss = model(batch).pow(2).mean()
        loss.backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
    print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
