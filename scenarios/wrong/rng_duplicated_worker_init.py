# expect: rng-duplicated
"""A worker_init_fn that was meant to make runs repeatable, and makes all workers alike."""

import random

import torch
from torch.utils.data import DataLoader, Dataset


def same_everywhere(worker_id):
    random.seed(1234)


class Masked(Dataset):
    def __init__(self, tokens):
        self.tokens = tokens

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        inputs = self.tokens[index].clone()
        for place in random.sample(range(len(inputs)), 3):
            inputs[place] = 0
        return inputs, self.tokens[index]


if __name__ == "__main__":
    loader = DataLoader(Masked(torch.randint(1, 50, (96, 20))), 12, num_workers=2, worker_init_fn=same_everywhere)
    embed, head = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for epoch in range(2):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(head(embed(inputs)).flatten(0, 1), targets.flatten())
            loss.backward()
            optimizer.step()
        print("epoch", epoch, round(loss.item(), 3), flush=True)
