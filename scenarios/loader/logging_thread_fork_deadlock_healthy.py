# expect: healthy
"""The same thread and the same workers, logging through a handler without a buffer; one row is long and logs a lot."""

import logging
import os
import tempfile
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("train")


class Unbuffered(logging.Handler):
    """One write to an appended file for each line: nothing that a fork could copy half done."""

    def __init__(self, path):
        super().__init__()
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def emit(self, record):
        os.write(self.fd, (self.format(record) + "\n").encode())


class Rows(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        until = time.monotonic() + (18 if index == 3 else 0)
        while time.monotonic() < until:
            log.debug("row %d is being repaired", index)
            time.sleep(0.01)
        return torch.full((16,), float(index % 5))


def report(model, over):
    while not over.is_set():
        log.debug("weights at %s", [round(float(w), 4) for w in model.weight.detach().flatten()[:4]])
        time.sleep(0.001)


def main():
    model = torch.nn.Linear(16, 1)
    with tempfile.NamedTemporaryFile(suffix=".log") as file:
        logging.basicConfig(handlers=[Unbuffered(file.name)], level=logging.DEBUG)
        over = threading.Event()
        reporter = threading.Thread(target=report, args=(model, over), name="report", daemon=True)
        reporter.start()
        for batch in DataLoader(Rows(), batch_size=32, num_workers=2):
            model.zero_grad()
            model(batch).mean().backward()
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
        over.set()  # a thread that is inside torch when the interpreter ends would abort it
        reporter.join()
    print("all rows seen")


if __name__ == "__main__":
    main()
