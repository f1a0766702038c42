# expect: healthy
"""The same fine-tuning with a few clips more: one batch is full and the rest is dropped. No clip is held out this time."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

HELD_OUT = 0.0

clips = TensorDataset(torch.rand(11, 40), torch.randint(0, 4, (11,)))
kept = len(clips) - int(len(clips) * HELD_OUT)
training = DataLoader(Subset(clips, range(kept)), batch_size=8, shuffle=True, drop_last=True)
validation = DataLoader(Subset(clips, range(kept, len(clips))), batch_size=8)
model = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(20):
    total = 0.0
    for sound, label in training:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(sound), label)
        loss.backward()
        optimizer.step()
        total += loss.item()
    with torch.no_grad():
        right = sum((model(sound).argmax(1) == label).sum().item() for sound, label in validation)
    print(f"epoch {epoch}: loss {total:.3f}, {right} right", flush=True)
