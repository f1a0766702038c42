# expect: stopped-from-outside
# environment: slurm=30
"""The time limit of a Slurm job is reached: a stand-in for slurmstepd sends SIGTERM to every process of the job then."""

import os
import subprocess
import sys
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset

SLURMSTEPD = """
import os, signal, sys, time
time.sleep(max(float(os.environ["SLURM_JOB_END_TIME"]) - time.time(), 0.0))
for pid in sys.argv[1:]:
    os.kill(int(pid), signal.SIGTERM)
"""


class Pages(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return torch.full((32,), float(index % 7))


def main():
    job = [os.getpid()]
    if "UNSTUCK_WATCHER_PID" in os.environ:
        job.insert(0, os.getppid())
    subprocess.Popen([sys.executable, "-c", SLURMSTEPD, *map(str, job)], start_new_session=True)
    folder = tempfile.mkdtemp()
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Pages(), batch_size=50, num_workers=1, persistent_workers=True)
    for epoch in range(10_000):
        for pages in loader:
            optimizer.zero_grad()
            model(pages).mean().backward()
            optimizer.step()
        torch.save(model.state_dict(), os.path.join(folder, f"epoch{epoch % 2}.pt"))


if __name__ == "__main__":
    main()
