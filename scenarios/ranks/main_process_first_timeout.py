# expect: main-process-first-timeout
"""The first rank tokenises the corpus for longer than the process group is patient; the other one waits for it."""

import os
import socket
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch._dynamo  # every optimizer brings it along: once here instead of once in every rank
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch.utils.data import DataLoader, TensorDataset

DOCUMENTS = 6000  # some ten seconds of work


def tokenize(cache):
    """Cached on disk, so that the other ranks only have to read it."""
    if not cache.exists():
        documents = (" ".join(str(number * word) for word in range(4000)) for number in range(DOCUMENTS))
        rows = [[sum(map(ord, word)) % 997 for word in document.split()][:32] for document in documents]
        torch.save(torch.tensor(rows).float() / 997, cache)
    return torch.load(cache)


def train(rank, world, port, folder):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), OMP_NUM_THREADS="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    patience = InitProcessGroupKwargs(timeout=timedelta(seconds=5))
    accelerator = Accelerator(cpu=True, kwargs_handlers=[patience])
    with accelerator.main_process_first():
        rows = tokenize(Path(folder) / "tokens.pt")
    model = torch.nn.Linear(32, 1)
    loader = DataLoader(TensorDataset(rows), batch_size=64)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), loader)
    for (batch,) in loader:
        optimizer.zero_grad()
        accelerator.backward(model(batch).mean())
        optimizer.step()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, port, folder), nprocs=2, start_method="fork")
