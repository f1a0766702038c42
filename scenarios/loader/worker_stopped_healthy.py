# expect: healthy
"""Workers are stopped for two seconds now and then, by somebody who needs the processor, and always continued."""

import multiprocessing
import os
import signal
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, stopped):
        self.stopped = stopped

    def __len__(self):
        return 144

    def __getitem__(self, index):
        if index % 24 == 20:
            self.stopped.put(os.getpid())
            os.kill(os.getpid(), signal.SIGSTOP)
        return torch.full((24,), float(index % 11))


def continue_them(stopped):
    while True:
        pid = stopped.get()
        time.sleep(2)
        os.kill(pid, signal.SIGCONT)


def main():
    stopped = multiprocessing.SimpleQueue()
    threading.Thread(target=continue_them, args=(stopped,), daemon=True).start()
    model = torch.nn.Linear(24, 1)
    for step, rows in enumerate(DataLoader(Rows(stopped), batch_size=16, num_workers=2, in_order=False)):
        model.zero_grad()
        model(rows).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
