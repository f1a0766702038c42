# expect: healthy
"""SIGUSR1 from outside asks for a checkpoint: the handler saves, the training goes on and comes to its end."""

import os
import signal
import subprocess
import tempfile
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    checkpoint = os.path.join(tempfile.mkdtemp(), "asked_for.pt")
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    asked, saved = 1, []

    def save(*_):
        torch.save(model.state_dict(), checkpoint)
        saved.append(step)

    signal.signal(signal.SIGUSR1, save)
    step = 0
    for _ in range(6):
        for (rows,) in DataLoader(TensorDataset(torch.rand(320, 8)), batch_size=16):
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
            step += 1
            if step == 57:  # once to the process itself, once through `unstuck run`, which passes it on
                subprocess.run(["kill", "-USR1", str(os.getpid())], check=True)
                if "UNSTUCK_WATCHER_PID" in os.environ:
                    subprocess.run(["kill", "-USR1", str(os.getppid())], check=True)
                    asked += 1
    while len(saved) < asked:  # a signal that comes while Python is leaving would end it
        time.sleep(0.01)


if __name__ == "__main__":
    main()
