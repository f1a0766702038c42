# expect: logger-no-answer
# outside: nothing
"""A metrics client with a connection that is kept open asks for an answer in every step; the collector stops answering."""

import http.client
import json
import socket
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


def collect(listener, answers):
    connection, _ = listener.accept()
    with connection.makefile("rb") as lines:
        for _ in range(answers):
            size = 0
            while (line := lines.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            lines.read(size)
            connection.sendall(ANSWER)
        threading.Event().wait(150)


def steps(loader, model):
    for rows, wanted in loader:
        loss = (model(rows) - wanted).pow(2).mean()
        loss.backward()
        yield loss.item()


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=collect, args=(listener, 25), daemon=True).start()
    client = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=140)
    model = torch.nn.Linear(8, 1)
    for number, loss in enumerate(steps(DataLoader(TensorDataset(torch.rand(400, 8), torch.rand(400, 1)), 8), model)):
        client.request("PUT", "/loss", json.dumps({"step": number, "loss": loss}))
        client.getresponse().read()


if __name__ == "__main__":
    main()
