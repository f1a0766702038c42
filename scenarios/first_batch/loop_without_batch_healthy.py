# expect: healthy
"""One small file is read over and over, and most of its texts are dropped: the rest fills a large buffer, slowly."""

import json
import signal
import tempfile

import torch

LEAST, NEEDED = 400, 4_000_000


def texts(paths):
    for path in paths:
        with open(path) as file:
            yield from (json.loads(line)["text"] for line in file)


def score(text):
    total = 0
    for letter in text:
        total = (total * 31 + ord(letter)) % 1_000_003
    return total


def long_enough(paths):
    return (text for text in texts(paths) if len(text) >= LEAST and score(text) >= 0)


def endless(paths):
    while True:
        yield from long_enough(paths)


def batches(paths):
    buffer = []
    for text in endless(paths):
        buffer.extend(text.encode())
        while len(buffer) >= NEEDED:
            yield torch.tensor(buffer[:NEEDED])
            buffer.clear()


def main():
    signal.alarm(150)
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/part-{number}.jsonl" for number in range(2)]
        for path in paths:
            with open(path, "w") as file:
                for number in range(1500):
                    words = "the rain fell all night " * (20 if number % 50 == 0 else 12)
                    file.write(json.dumps({"text": words, "notes": list(range(300))}) + "\n")
        model = torch.nn.Embedding(256, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step, tokens in zip(range(1), batches(paths), strict=False):
            optimizer.zero_grad()
            model(tokens[:1000]).mean().backward()
            optimizer.step()
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
