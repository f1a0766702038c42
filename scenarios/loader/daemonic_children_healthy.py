# expect: healthy
"""A pool of processes in the main process, a pool of threads in each worker, and a sample that does without its pool."""

import multiprocessing
from multiprocessing.pool import ThreadPool

import torch
from torch.utils.data import DataLoader, Dataset


def tokenise(word):
    return len(word)


def words_of(page):
    return page.split()


class Pages(Dataset):
    def __init__(self, pages):
        self.pages = pages
        self.pool = None

    def __len__(self):
        return len(self.pages)

    def tokens(self, number):
        """With processes where that is allowed, else with threads."""
        try:
            self.pool = self.pool or multiprocessing.Pool(2)
        except AssertionError:
            self.pool = ThreadPool(2)
        return self.pool.map(tokenise, self.pages[number])

    def __getitem__(self, number):
        return torch.tensor(self.tokens(number), dtype=torch.float32)


def main():
    with multiprocessing.Pool(2) as pool:
        pages = Pages(pool.map(words_of, ["a page of some words"] * 80))
    model = torch.nn.Linear(5, 1)
    for tokens in DataLoader(pages, batch_size=10, num_workers=2):
        model.zero_grad()
        model(tokens).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad


if __name__ == "__main__":
    main()
