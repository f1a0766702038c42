# expect: logging-thread-fork-deadlock
"""A thread of the main process logs to a file without pause while the loader forks workers that log to the same file."""

import logging
import signal
import sys
import tempfile
import threading

import torch
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("train")


class Rows(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        log.debug("row %d", index)
        return torch.full((16,), float(index % 5))


def report(model):
    while True:
        log.debug("weights at %s", [round(float(w), 4) for w in model.weight.detach().flatten()[:4]])


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    model = torch.nn.Linear(16, 1)
    with tempfile.NamedTemporaryFile(suffix=".log") as file:
        logging.basicConfig(filename=file.name, level=logging.DEBUG)
        threading.Thread(target=report, args=(model,), name="report", daemon=True).start()
        for epoch in range(100):
            for batch in DataLoader(Rows(), batch_size=64, num_workers=2):
                model.zero_grad()
                model(batch).mean().backward()
                for weight in model.parameters():
                    weight.data -= 0.01 * weight.grad
            print("epoch", epoch, flush=True)


if __name__ == "__main__":
    main()
