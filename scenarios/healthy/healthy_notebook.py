# expect: healthy
"""A notebook's kernel trains in one cell, waits for its user, and trains again in the next."""

import asyncio
import subprocess
import sys
import time

CELLS = """
import torch; from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(7, 1); optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(400, 7)), batch_size=10, num_workers=2)
train(model, optimizer, loader)
wait
train(model, optimizer, loader)
""".strip().splitlines()


def train(model, optimizer, loader):
    for epoch in range(2):
        for (rows,) in loader:
            optimizer.zero_grad()
            model(rows).mean().backward()
            optimizer.step()
        print("epoch", epoch, "done", flush=True)


async def kernel():
    """Runs a cell whenever one comes in."""
    names = {"train": train}
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while cell := await reader.readline():
        exec(cell, names)


def person():
    command = [sys.executable, __file__, "kernel"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as running:
        for cell in CELLS:
            if cell == "wait":
                time.sleep(20)  # most of it after the first training
            else:
                print(cell, file=running.stdin, flush=True)
        running.stdin.close()
        sys.exit(running.wait())


if __name__ == "__main__":
    asyncio.run(kernel()) if sys.argv[1:] == ["kernel"] else person()
