# expect: healthy
"""As much is printed, into a pipe whose reader writes it to a file at once."""

import io
import subprocess
import sys
import tempfile
import time

import torch
from torch.utils.data import DataLoader

READER = "import shutil, sys\nshutil.copyfileobj(sys.stdin.buffer, open(sys.argv[1], 'wb'))"


def show(step, loss, centre):
    values = " ".join(f"{one:.6f}" for one in centre.tolist())
    print(f"step {step} loss {loss:.4f} centre {values}", flush=True)


def main():
    with tempfile.NamedTemporaryFile() as kept:
        reader = subprocess.Popen([sys.executable, "-I", "-c", READER, kept.name], stdin=subprocess.PIPE)
        shown, sys.stdout = sys.stdout, io.TextIOWrapper(reader.stdin)
        centre = torch.zeros(512)
        for step, rows in enumerate(DataLoader(torch.rand(1760, 512), batch_size=8)):
            centre += 0.1 * (rows.mean(0) - centre)
            time.sleep(0.05)
            show(step, (rows - centre).pow(2).mean().item(), centre)
        sys.stdout.close()
        sys.stdout = shown
        reader.wait()


if __name__ == "__main__":
    main()
