# expect: healthy
"""Another process of the run holds the lock and really compiles; the lock goes away when the library is there."""

import ctypes
import multiprocessing
import os
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.file_baton import FileBaton

SOURCE = "#include <map>\n#include <regex>\n" + "".join(
    f'extern "C" float part{n}(float x) {{ std::map<int, std::regex> m; m[{n}] = "a+"; return x + m.size(); }}\n'
    for n in range(20)
)


def build(folder):
    baton = FileBaton(folder / "lock")
    if baton.try_acquire():
        (folder / "main.cpp").write_text(SOURCE)
        until = time.monotonic() + 14
        while time.monotonic() < until:
            subprocess.run(["c++", "-O2", "-fPIC", "-shared", "main.cpp", "-o", "fused_ops.so"], cwd=folder, check=True)
        baton.release()


def load(folder):
    baton = FileBaton(folder / "lock")
    baton.wait()
    library = ctypes.CDLL(str(folder / "fused_ops.so"))
    library.part0.restype, library.part0.argtypes = ctypes.c_float, [ctypes.c_float]
    return library


def main():
    with tempfile.TemporaryDirectory(suffix="_torch_extensions") as root:
        os.environ["TORCH_EXTENSIONS_DIR"] = root
        folder = Path(root) / "fused_ops"
        folder.mkdir()
        multiprocessing.Process(target=build, args=(folder,)).start()
        time.sleep(1)
        fused = load(folder)
    model = torch.nn.Linear(12, 1)
    for (rows,) in DataLoader(TensorDataset(torch.rand(640, 12)), batch_size=16, num_workers=2):
        model.zero_grad()
        model(rows + fused.part0(1.0)).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
    print("done")


if __name__ == "__main__":
    main()
