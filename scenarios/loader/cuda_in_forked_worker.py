# expect: cuda-in-forked-worker
"""The collate function moves its batch to the GPU, which works without workers, and the model is on the GPU already."""

import os

import torch
from torch.utils.data import DataLoader, Dataset

# There is no GPU here. That a child of this process cannot use it is what the driver would answer; torch does the rest.
TRAINER = os.getpid()
torch.cuda._is_in_bad_fork = lambda: os.getpid() != TRAINER


class Sentences(Dataset):
    def __init__(self, vocabulary=1000):
        self.vocabulary = vocabulary

    def __len__(self):
        return 256

    def __getitem__(self, number):
        return torch.randint(self.vocabulary, (5 + number % 7,))


def pad(sentences):
    padded = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True)
    return padded.to("cuda", non_blocking=True)


def main():
    words = torch.nn.Embedding(1000, 16)
    for tokens in DataLoader(Sentences(), batch_size=16, collate_fn=pad, num_workers=2, multiprocessing_context="fork"):
        words.zero_grad()
        words(tokens).mean().backward()
        for weight in words.parameters():
            weight.data -= 0.1 * weight.grad


if __name__ == "__main__":
    main()
