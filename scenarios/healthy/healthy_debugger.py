# expect: healthy
"""Somebody has set a breakpoint in the loop and thinks for a while at the debugger's prompt before going on."""

import os
import pty
import subprocess
import sys
import time


def train():
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(7, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.rand(400, 7)), batch_size=10, num_workers=2)):
        optimizer.zero_grad()
        loss = model(rows).mean()
        loss.backward()
        if step == 15:
            breakpoint()  # noqa: T100
        optimizer.step()
        print("step", step, flush=True)


def person():
    """Sits at a terminal in which the training runs, and takes thirteen seconds for the first answer."""
    terminal, inside = pty.openpty()
    training = subprocess.Popen([sys.executable, __file__, "train"], stdin=inside, stdout=inside, stderr=inside)
    os.close(inside)
    answers = [(13, b"p loss\n"), (1, b"c\n")]
    shown = b""
    try:
        while text := os.read(terminal, 4096):
            print(text.decode(), end="", flush=True)
            shown += text
            if shown.endswith(b"(Pdb) ") and answers:
                pause, answer = answers.pop(0)
                time.sleep(pause)
                os.write(terminal, answer)
    except OSError:  # the other side has closed
        sys.exit(training.wait())


if __name__ == "__main__":
    train() if sys.argv[1:] == ["train"] else person()
