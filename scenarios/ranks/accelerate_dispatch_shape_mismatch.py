# expect: accelerate-dispatch-shape-mismatch
"""Sentences from a stream, each batch padded to its own longest: the first rank is to join two of them for two ranks."""

import os
import socket

import torch
from accelerate import Accelerator
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset

RANKS = 2


class Sentences(IterableDataset):
    def __iter__(self):
        for number in range(400):
            # Those of the first batches are equally long by chance.
            yield torch.arange(8 if number < 48 else 3 + number * 7 % 23) % 50


def padded(sentences):
    return pad_sequence(sentences, batch_first=True)


def train(rank, port):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), OMP_NUM_THREADS="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Sequential(torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50))
    loader = DataLoader(Sentences(), batch_size=8, collate_fn=padded)
    model, loader = accelerator.prepare(model, loader)
    for tokens in loader:
        scores = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        accelerator.backward(loss)
        for weights in model.parameters():
            weights.data -= 0.1 * weights.grad
            weights.grad = None
        accelerator.print("loss", round(loss.item(), 3))
    accelerator.end_training()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    torch.multiprocessing.start_processes(train, (port,), nprocs=RANKS, start_method="fork")
