# expect: healthy
"""A large framework is imported for the first time: hundreds of modules, each of which is compiled and builds tables."""

import importlib
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

MODULE = """
import time
until = time.monotonic() + 0.12  # as long on any machine
while time.monotonic() < until:
    TABLE = {{number: str(number) * {number} for number in range(2000)}}
    INDEX = sorted(TABLE, key=lambda number: hash(TABLE[number]) % 1009)
    time.sleep(0.003)
"""
FUNCTION = """
def operator_{number}(x, y=None, *, scale={number}):
    if y is None:
        return [(value * scale, value + {number}, value ** 2) for value in x]
    return {{left: right * scale for left, right in zip(x, y) if left != {number}}}
"""


def write_package(folder):
    package = folder / "large_framework"
    package.mkdir()
    (package / "__init__.py").write_text("".join(f"from . import ops_{n}\n" for n in range(110)))
    for number in range(110):
        functions = "".join(FUNCTION.format(number=n) for n in range(100))
        (package / f"ops_{number}.py").write_text(MODULE.format(number=number % 7 + 1) + functions)


def main():
    with tempfile.TemporaryDirectory() as name:
        write_package(Path(name))
        sys.path.insert(0, name)
        framework = importlib.import_module("large_framework")
    print("imported", framework.__name__, flush=True)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for (rows,) in DataLoader(TensorDataset(torch.rand(640, 8)), batch_size=16, num_workers=2):
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
