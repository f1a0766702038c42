# expect: healthy
"""Workers of a training that may use a GPU: they ask whether there is one, pad on the CPU, and the loop moves batches."""

import os

import torch
from torch.utils.data import DataLoader, Dataset

TRAINER = os.getpid()
torch.cuda._is_in_bad_fork = lambda: os.getpid() != TRAINER


class Sentences(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, number):
        return torch.randint(1000, (5 + number % 7,))


def pad(sentences):
    padded = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True)
    return padded.pin_memory() if torch.cuda.is_available() else padded


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    words = torch.nn.Embedding(1000, 16, device=device)
    for tokens in DataLoader(Sentences(), batch_size=16, collate_fn=pad, num_workers=2, multiprocessing_context="fork"):
        words.zero_grad()
        words(tokens.to(device, non_blocking=True)).mean().backward()
        for weight in words.parameters():
            weight.data -= 0.1 * weight.grad
    print("trained on", device)
