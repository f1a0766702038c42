# expect: gil-held
"""A worker decodes through a native library that waits, with the GIL, for its own thread, which needs the GIL too."""

import ctypes
import signal
import threading

import torch
from torch.utils.data import DataLoader, Dataset

NATIVE = ctypes.PyDLL(None)


class Clips(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        if index == 230:
            return self.decoded(index)
        return torch.full((8,), float(index))

    def decoded(self, index):
        """The frame is put by a callback in another thread; the semaphore is waited for without letting go of the GIL."""
        frames, ready = [], ctypes.create_string_buffer(64)
        NATIVE.sem_init(ready, 0, 0)

        def callback():
            frames.append(torch.full((8,), float(index)))
            NATIVE.sem_post(ready)

        threading.Timer(0.5, callback).start()
        NATIVE.sem_wait(ready)
        return frames[0]


def main():
    signal.alarm(150)
    model = torch.nn.Linear(8, 1)
    for step, frames in enumerate(DataLoader(Clips(), batch_size=10, num_workers=2)):
        model.zero_grad()
        model(frames).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
