# expect: loop-without-batch (core)
"""Texts that are too short are dropped, and every text is: each round over the files yields nothing, and the next begins."""

import json
import signal
import tempfile

import torch

LEAST, NEEDED = 400, 4097


def texts(paths):
    for path in paths:
        with open(path) as file:
            yield from (json.loads(line)["text"] for line in file)


def long_enough(paths):
    return (text for text in texts(paths) if len(text) >= LEAST)


def endless(paths):
    while True:
        yield from long_enough(paths)


def batches(paths):
    buffer = []
    for text in endless(paths):
        buffer.extend(text.encode())
        while len(buffer) >= NEEDED:
            yield torch.tensor(buffer[:NEEDED])
            del buffer[: NEEDED - 1]


def main():
    signal.alarm(150)
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/part-{number}.jsonl" for number in range(4)]
        for path in paths:
            with open(path, "w") as file:
                file.writelines(json.dumps({"text": "the rain fell all night " * 12}) + "\n" for _ in range(3000))
        model = torch.nn.Embedding(256, 8)
        for step, tokens in enumerate(batches(paths)):
            model.zero_grad()
            model(tokens).mean().backward()
            for weight in model.parameters():
                weight.data -= 0.1 * weight.grad
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
