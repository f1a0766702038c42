# expect: slow-output
"""A bar that is drawn anew for every batch, into a pipe whose reader passes on a line at a time over a thin link."""

import io
import subprocess
import sys
import time

import torch
from torch.utils.data import DataLoader

READER = "import sys, time\nwhile sys.stdin.buffer.read1(2000): time.sleep(0.1)"


def show(step, loss, centre):
    values = " ".join(f"{one:.6f}" for one in centre.tolist())
    print(f"step {step} loss {loss:.4f} centre {values}", flush=True)


def main():
    reader = subprocess.Popen([sys.executable, "-I", "-c", READER], stdin=subprocess.PIPE)
    shown, sys.stdout = sys.stdout, io.TextIOWrapper(reader.stdin)
    centre = torch.zeros(512)
    for step, rows in enumerate(DataLoader(torch.rand(440, 512), batch_size=8)):
        centre += 0.1 * (rows.mean(0) - centre)
        time.sleep(0.01)
        show(step, (rows - centre).pow(2).mean().item(), centre)
    sys.stdout.close()
    sys.stdout = shown
    reader.wait()


if __name__ == "__main__":
    main()
