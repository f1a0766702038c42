# expect: healthy
"""After training comes a long validation: first its batches, then a metric over all pairs, on one processor."""

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def concordance(scores, targets):
    """The share of pairs in the right order, without a clever algorithm."""
    right = total = 0
    for score, target in zip(scores, targets, strict=True):
        later = targets > target
        right += np.count_nonzero(scores[later] > score)
        total += np.count_nonzero(later)
    return right / total


def main():
    data = TensorDataset(torch.rand(2000, 12), torch.rand(2000))
    held_out = TensorDataset(torch.rand(50_000, 12), torch.rand(50_000))
    model = torch.nn.Linear(12, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for rows, targets in DataLoader(data, batch_size=20, num_workers=2):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(rows).squeeze(1), targets).backward()
        optimizer.step()
    print("validation", flush=True)
    scores, targets = [], []
    with torch.no_grad():
        for rows, wanted in DataLoader(held_out, batch_size=500, num_workers=2):
            scores.append(model(rows).squeeze(1))
            targets.append(wanted)
    print("concordance", concordance(torch.cat(scores).numpy(), torch.cat(targets).numpy()))


if __name__ == "__main__":
    main()
