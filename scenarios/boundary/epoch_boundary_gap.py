# expect: epoch-boundary-gap
"""After every epoch a callback hands the sample pictures to another program and waits until that has drawn them."""

import subprocess
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


class Pictures:
    """Stands for a renderer that takes its time."""

    def on_epoch_end(self, epoch):
        subprocess.run(["sleep", "2.2"], check=True)
        print("pictures of epoch", epoch, "drawn", flush=True)


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 2)
    callbacks = [Pictures()]
    loader = DataLoader(TensorDataset(torch.rand(320, 16)), batch_size=8)
    for epoch in range(4):
        for (rows,) in loader:
            loss = model(rows).square().mean()
            loss.backward()
            for weight in model.parameters():
                weight.data -= 0.1 * weight.grad
                weight.grad = None
            time.sleep(0.01)
        for one in callbacks:
            one.on_epoch_end(epoch)


if __name__ == "__main__":
    main()
