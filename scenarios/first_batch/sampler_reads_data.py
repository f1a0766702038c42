# expect: sampler-reads-data
"""Utterances are batched by length. The sampler asks the dataset for every one of them, just to measure it."""

import time

import torch
from torch.utils.data import DataLoader, Dataset, Sampler


class Utterances(Dataset):
    def __len__(self):
        return 1800

    def __getitem__(self, number):
        time.sleep(0.004)  # what decoding the audio takes
        return torch.full((40 + number * 37 % 60,), 0.1)


class SimilarLengths(Sampler):
    def __init__(self, utterances, size):
        self.utterances = utterances
        self.size = size

    def __len__(self):
        return len(self.utterances) // self.size

    def __iter__(self):
        lengths = [(len(self.utterances[number]), number) for number in range(len(self.utterances))]
        ordered = [number for _, number in sorted(lengths)]
        for start in torch.randperm(len(self)).tolist():
            yield ordered[start * self.size : (start + 1) * self.size]


def pad(utterances):
    return torch.nn.utils.rnn.pad_sequence(utterances, batch_first=True)


def main():
    utterances = Utterances()
    weight = torch.zeros(1, requires_grad=True)
    loader = DataLoader(utterances, batch_sampler=SimilarLengths(utterances, 20), collate_fn=pad, num_workers=2)
    for batch in loader:
        (batch.mean() * weight - 1).square().sum().backward()
        weight.data -= 0.1 * weight.grad
        weight.grad = None
        time.sleep(0.05)  # what an accelerator would take
    print("epoch done", flush=True)


if __name__ == "__main__":
    main()
