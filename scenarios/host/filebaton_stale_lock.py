# expect: filebaton-stale-lock
"""A build of an extension was killed last night and left its lock file behind; torch waits for it to go away."""

import os
import signal
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.cpp_extension import load_inline
from torch.utils.data import DataLoader, TensorDataset

SOURCE = "torch::Tensor doubled(torch::Tensor x) { return x + x; }"


def leave_lock(root):
    lock = root / "fused_ops" / "lock"
    lock.parent.mkdir()
    lock.touch()
    last_night = time.time() - 9 * 3600
    os.utime(lock, (last_night, last_night))


def main():
    signal.alarm(150)
    os.environ["TORCH_EXTENSIONS_DIR"] = tempfile.mkdtemp(suffix="_torch_extensions")
    leave_lock(Path(os.environ["TORCH_EXTENSIONS_DIR"]))
    print("loading the extension", flush=True)
    fused = load_inline(name="fused_ops", cpp_sources=SOURCE, functions=["doubled"])
    model = torch.nn.Linear(12, 1)
    for (rows,) in DataLoader(TensorDataset(torch.rand(640, 12)), batch_size=16, num_workers=2):
        model.zero_grad()
        model(fused.doubled(rows)).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad


if __name__ == "__main__":
    main()
