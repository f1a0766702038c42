# expect: empty-loader-drop-last (core)
"""Fine-tuning on a handful of clips with the batch size of the large run: every epoch is over before it begins."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

clips = TensorDataset(torch.rand(7, 40), torch.randint(0, 4, (7,)))
loader = DataLoader(clips, batch_size=8, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(20):
    total = 0.0
    for sound, label in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(sound), label)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total:.3f}", flush=True)
