# expect: worker-blocked-io
"""Large samples are fetched from a server that takes the connection and never answers; the client has no timeout."""

import signal
import socket
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __init__(self, address):
        self.address = address

    def __len__(self):
        return 200

    def __getitem__(self, index):
        return self.fetch(index) if index == 101 else torch.full((64,), float(index % 5))

    def fetch(self, index):
        with socket.create_connection(self.address) as connection:
            connection.sendall(f"GET /{index}.bin HTTP/1.0\r\n\r\n".encode())
            answer = bytearray()
            while piece := connection.recv(65536):
                answer += piece
        return torch.frombuffer(answer, dtype=torch.uint8)[-64:].float()


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    # The kernel completes connections for a server that listens, whether it ever looks at them or not.
    with socket.create_server(("127.0.0.1", 0)) as server:
        model = torch.nn.Linear(64, 1)
        for step, rows in enumerate(DataLoader(Remote(server.getsockname()), batch_size=8, num_workers=2)):
            model.zero_grad()
            model(rows).mean().backward()
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
