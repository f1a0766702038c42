# expect: collate-unequal-shapes
"""Sentences as lists of token numbers, of which none was padded; the loader has no workers."""

import torch
from torch.utils.data import DataLoader

VOCABULARY = 50
sentences = [torch.arange(6) % VOCABULARY for _ in range(64)] + [
    torch.arange(3 + n % 5) % VOCABULARY for n in range(64)
]

embedding = torch.nn.EmbeddingBag(VOCABULARY, 8)
for tokens in DataLoader(sentences, batch_size=16):
    embedding.zero_grad()
    embedding(tokens).pow(2).mean().backward()
    for weight in embedding.parameters():
        weight.data -= 0.1 * weight.grad
