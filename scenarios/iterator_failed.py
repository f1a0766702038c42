# expect: uncaught-exception
"""The loader is made, but its workers cannot be started: the dataset holds something that cannot be pickled."""

import threading

import torch
from torch.utils.data import DataLoader, Dataset


class Guarded(Dataset):
    def __init__(self):
        self.lock = threading.Lock()

    def __len__(self):
        return 100

    def __getitem__(self, index):
        with self.lock:
            return torch.zeros(3)


if __name__ == "__main__":
    for _ in DataLoader(Guarded(), batch_size=4, num_workers=2, multiprocessing_context="spawn"):
        pass
