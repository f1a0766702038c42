# expect: stuck-in-user-code
"""wandb and TensorBoard live on while the loop waits for an answer that a thread, gone long since, will never give."""

import queue
import signal
import sys
import tempfile
import threading

import torch
import wandb
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter


class Teacher:
    """Answers in a thread of its own, until a batch has a shape that it does not know."""

    def __init__(self):
        self.asked, self.answers = queue.Queue(), queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        weights = torch.randn(16, 4)
        while (rows := self.asked.get()) is not None:
            if len(rows) != 32:
                return
            self.answers.put(rows @ weights)

    def answer(self, rows):
        self.asked.put(rows)
        return self.answers.get()


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    with tempfile.TemporaryDirectory() as folder:
        settings = wandb.Settings(x_stats_sampling_interval=1.0, console="off")
        run = wandb.init(mode="offline", project="distil", dir=folder, settings=settings)
        board = SummaryWriter(folder, flush_secs=1)
        teacher, student = Teacher(), torch.nn.Linear(16, 4)
        optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
        for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.randn(330, 16)), batch_size=32, num_workers=2)):
            loss = (student(rows) - teacher.answer(rows)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 2 == 0:
                run.log({"loss": loss.item()})
                board.add_scalar("loss", loss.item(), step)


if __name__ == "__main__":
    main()
