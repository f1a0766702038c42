# expect: healthy
"""Two workers stream articles, one language each, and one of them is soon done. The one that is left is still quicker
than the model, so nothing is lost by that."""

import time

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ARTICLES = {"de": 36, "en": 260}


class Articles(IterableDataset):
    def __init__(self, counts):
        self.counts = counts

    def __iter__(self):
        info = get_worker_info()
        for language in list(self.counts)[info.id :: info.num_workers]:
            for number in range(self.counts[language]):
                yield self.embed(f"{language}/{number}")

    def embed(self, title):
        time.sleep(0.006)  # asks a server
        return torch.tensor([ord(title[number % len(title)]) / 128 for number in range(32)])


def main():
    torch.set_num_threads(1)
    loader = DataLoader(Articles(ARTICLES), batch_size=6, num_workers=2)
    model = torch.nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step, vectors in enumerate(loader):
        optimizer.zero_grad()
        loss = model(vectors).pow(2).mean()
        loss.backward()
        optimizer.step()
        time.sleep(0.07)  # what a larger model would take on a device of its own
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
