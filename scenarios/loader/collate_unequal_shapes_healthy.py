# expect: healthy
"""Samples of all lengths: padded by a collate function that tries to stack them first, and one by one at the end."""

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, index):
        return torch.full((4 + index // 30 + (index % 3 if index > 60 else 0),), index % 40)


def stack_or_pad(samples):
    try:
        return torch.stack(samples)
    except RuntimeError:
        return pad_sequence(samples, batch_first=True)


if __name__ == "__main__":
    bag = torch.nn.EmbeddingBag(40, 8)
    adam = torch.optim.Adam(bag.parameters())
    for sentences in DataLoader(Sentences(), batch_size=15, num_workers=2, collate_fn=stack_or_pad):
        adam.zero_grad()
        bag(sentences).pow(2).mean().backward()
        adam.step()
    with torch.no_grad():
        for sentence in DataLoader(torch.utils.data.Subset(Sentences(), range(0, 120, 20)), batch_size=1):
            print(sentence.shape, float(bag(sentence).sum()))
