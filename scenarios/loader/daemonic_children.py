# expect: daemonic-children
"""Pages are tokenised by a pool of processes, which was written for a script without a DataLoader."""

import multiprocessing

import torch
from torch.utils.data import DataLoader, Dataset


def tokenise(word):
    return len(word)


class Pages(Dataset):
    def __init__(self, pages):
        self.pages = pages

    def __len__(self):
        return len(self.pages)

    def __getitem__(self, number):
        with multiprocessing.Pool(2) as pool:
            tokens = pool.map(tokenise, self.pages[number].split())
        return torch.tensor(tokens, dtype=torch.float32)


def main():
    pages = Pages(["a page of some words"] * 120)
    model = torch.nn.Linear(5, 1)
    for tokens in DataLoader(pages, batch_size=10, num_workers=2):
        model.zero_grad()
        model(tokens).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad


if __name__ == "__main__":
    main()
