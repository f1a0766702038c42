# expect: worker-exited-silently
"""The reader of records was a command-line tool once: where a record has no label, it still leaves with exit code 3."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset


def read_label(record):
    if record["label"] is None:
        sys.exit(3)
    return record["label"]


class Records(Dataset):
    def __init__(self):
        self.records = [{"values": [i, i + 1, i + 2], "label": i % 4} for i in range(300)]
        self.records[187]["label"] = None

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        record = self.records[i]
        return torch.tensor(record["values"], dtype=torch.float32), read_label(record)


if __name__ == "__main__":
    classifier = torch.nn.Linear(3, 4)
    for values, labels in DataLoader(Records(), batch_size=15, num_workers=2):
        classifier.zero_grad()
        torch.nn.functional.cross_entropy(classifier(values), labels).backward()
        for weight in classifier.parameters():
            weight.data -= 1e-4 * weight.grad
