# expect: healthy
"""An index is built in native code before the first step: with the GIL for a while, then without it, then by torch."""

import ctypes
import os
import signal
import subprocess
import tempfile
import threading
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

SOURCE = """
#include <time.h>
volatile unsigned long turns;
void build(int seconds) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        for (int i = 0; i < 1000000; i++) turns++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begun.tv_sec < seconds);
}
"""


def built(folder):
    source, library = os.path.join(folder, "building.c"), os.path.join(folder, "building.so")
    with open(source, "w") as file:
        file.write(SOURCE)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def beat():
    while True:
        time.sleep(0.5)


def main():
    signal.alarm(170)
    threading.Thread(target=beat, name="heartbeat", daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        library = built(folder)
        ctypes.PyDLL(library).build(16)
        ctypes.CDLL(library).build(14)
    table = torch.rand(1500, 1500)
    until = time.monotonic() + 14
    while time.monotonic() < until:
        table = table @ table
        table /= table.norm()
    model = torch.nn.Linear(9, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.rand(300, 9)), batch_size=10)):
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
