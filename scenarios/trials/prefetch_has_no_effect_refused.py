# expect: prefetch-has-no-effect
# trial: budget make_loader
"""A loader whose workers were turned off for debugging, and whose prefetch_factor was left where it was."""

import torch
from torch.utils.data import DataLoader, TensorDataset

DEBUG = True


def make_loader():
    rows = TensorDataset(torch.randn(512, 16), torch.arange(512))
    return DataLoader(rows, batch_size=32, num_workers=0 if DEBUG else 8, prefetch_factor=4)
