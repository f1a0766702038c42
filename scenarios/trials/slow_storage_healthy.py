# expect: healthy
# trial: doctor make_loader --only benchmark --limit 40
"""The same images from a server that answers in a millisecond: a loader like many others."""

import multiprocessing
import socket
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

SIZE, PIECES, PAUSE = 60_000, 2, 0.0005  # bytes of an image, in so many pieces, with a pause before each


def answer(connection: socket.socket) -> None:
    while connection.recv(4):
        for _ in range(PIECES):
            time.sleep(PAUSE)
            connection.sendall(b"i" * (SIZE // PIECES))


def serve(listening: socket.socket) -> None:
    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


class Remote(Dataset):
    """One connection for each process, made when it is first needed."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address, self.connection, self.owner = address, None, None

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        worker = multiprocessing.current_process().pid
        if self.owner != worker:
            self.connection, self.owner = socket.create_connection(self.address), worker
        self.connection.sendall(index.to_bytes(4, "big"))
        image = b""
        while len(image) < SIZE:
            image += self.connection.recv(SIZE - len(image))
        return torch.frombuffer(bytearray(image), dtype=torch.uint8)


def make_loader() -> DataLoader:
    listening = socket.create_server(("127.0.0.1", 0))
    multiprocessing.get_context("fork").Process(target=serve, args=(listening,), daemon=True).start()
    return DataLoader(Remote(listening.getsockname()), batch_size=4, num_workers=2)
