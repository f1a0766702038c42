# expect: healthy
"""Workers that leave early because their part is done, a check that exits with 3 beside them, a sys.exit that is caught."""

import multiprocessing
import sys

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def is_complete(part):
    sys.exit(3 if part == 1 else 0)


class Parts(IterableDataset):
    """The second worker's part is empty: it ends long before the first."""

    def __iter__(self):
        try:
            is_complete(get_worker_info().id)
        except SystemExit as answer:
            if answer.code:
                return
        for number in range(90):
            yield torch.full((5,), float(number))


def main():
    check = multiprocessing.Process(target=is_complete, args=(1,))
    check.start()
    check.join()
    print("the check says", check.exitcode)
    net = torch.nn.Linear(5, 1)
    for _ in range(2):
        for rows in DataLoader(Parts(), batch_size=10, num_workers=2):
            net.zero_grad()
            net(rows).mean().backward()
            for weight in net.parameters():
                weight.data -= 1e-4 * weight.grad


if __name__ == "__main__":
    main()
