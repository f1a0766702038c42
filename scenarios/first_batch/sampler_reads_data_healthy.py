# expect: healthy
"""Utterances are batched by length. The sampler has the dataset too, but looks the lengths up in its table."""

import time

import torch
from torch.utils.data import DataLoader, Dataset, Sampler


class Utterances(Dataset):
    def __init__(self):
        self.lengths = {f"utterance-{number}": 40 + number * 37 % 60 for number in range(600)}
        self.names = list(self.lengths)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, number):
        time.sleep(0.004)  # what decoding the audio takes
        return torch.full((self.lengths[self.names[number]],), 0.1)


class SimilarLengths(Sampler):
    def __init__(self, utterances, size):
        self.utterances = utterances
        self.size = size

    def __len__(self):
        return len(self.utterances) // self.size

    def __iter__(self):
        lengths = [(self.utterances.lengths[name], number) for number, name in enumerate(self.utterances.names)]
        ordered = [number for _, number in sorted(lengths)]
        for start in torch.randperm(len(self)).tolist():
            yield ordered[start * self.size : (start + 1) * self.size]


def pad(utterances):
    return torch.nn.utils.rnn.pad_sequence(utterances, batch_first=True)


def main():
    utterances = Utterances()
    weight = torch.zeros(1, requires_grad=True)
    loader = DataLoader(utterances, batch_sampler=SimilarLengths(utterances, 20), collate_fn=pad, num_workers=2)
    for epoch in range(2):
        for batch in loader:
            (batch.mean() * weight - 1).square().sum().backward()
            weight.data -= 0.1 * weight.grad
            weight.grad = None
            time.sleep(0.06)  # what an accelerator would take
        print("epoch", epoch, "done", flush=True)


if __name__ == "__main__":
    main()
