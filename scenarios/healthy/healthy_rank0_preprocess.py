# expect: healthy
"""Two ranks: the first one tokenises the corpus while the second waits for it at a barrier, then both train."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist


def preprocess(path):
    tokens = []
    until = time.monotonic() + 13
    while time.monotonic() < until:
        text = " ".join(str(number * len(tokens)) for number in range(300))
        tokens += [hash(word) % 997 for word in text.split()]
        time.sleep(0.001)  # the next document comes from a disk
    torch.save(torch.tensor(tokens[-32_000:]).view(-1, 32).float() / 997, path)


def train(folder):
    dist.init_process_group("gloo")
    data = Path(folder) / "tokens.pt"
    if dist.get_rank() == 0:
        preprocess(data)
    dist.barrier()
    rows = torch.load(data)[dist.get_rank() :: 2]
    model = torch.nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (batch,) in enumerate(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=25)):
        optimizer.zero_grad()
        model(batch).mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if step % 10 == 0:
            print("rank", dist.get_rank(), "step", step, flush=True)
    dist.destroy_process_group()


def launch():
    with tempfile.TemporaryDirectory() as folder:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        sys.exit(subprocess.run([*torchrun, __file__, folder], check=False).returncode)


if __name__ == "__main__":
    train(sys.argv[1]) if "RANK" in os.environ else launch()
