# expect: healthy
"""Each worker fills a shuffle buffer from a slow store before it yields its first sample; after that, batches flow."""

import json
import random
import tempfile
import time

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Shuffled(IterableDataset):
    def __init__(self, path, size):
        self.path = path
        self.size = size

    def samples(self):
        info = get_worker_info()
        with open(self.path) as lines:
            for number, line in enumerate(lines):
                if number % info.num_workers == info.id:
                    time.sleep(0.004)
                    yield json.loads(line)

    def __iter__(self):
        buffer = []
        for sample in self.samples():
            if len(buffer) < self.size:
                buffer.append(sample)
                continue
            at = random.randrange(self.size)
            buffer[at], chosen = sample, buffer[at]
            yield torch.tensor(chosen["features"])


def main():
    with tempfile.NamedTemporaryFile("w") as file:
        for number in range(7500):
            file.write(json.dumps({"features": [(number * place) % 97 / 97 for place in range(200)]}) + "\n")
        file.flush()
        model = torch.nn.Linear(200, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step, rows in enumerate(DataLoader(Shuffled(file.name, size=3400), batch_size=16, num_workers=2)):
            optimizer.zero_grad()
            model(rows).mean().backward()
            optimizer.step()
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
