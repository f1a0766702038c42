# expect: all-documents-blank (core)
# outside: nothing
"""A converter wrote the text column without its content. A worker reads on until it has a batch of real documents."""

import os
import signal
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import tiktoken
import torch
from torch.utils.data import DataLoader, IterableDataset

LENGTH = 64
TEXT = " "


class Packed(IterableDataset):
    def __init__(self, paths):
        self.paths = paths
        self.encoding = tiktoken.Encoding(
            "bytes", pat_str=r"\w+|\s", mergeable_ranks={bytes([byte]): byte for byte in range(256)}, special_tokens={}
        )

    def texts(self):
        while True:
            for path in self.paths:
                for batch in pq.ParquetFile(path).iter_batches(batch_size=50, columns=["text"]):
                    yield [text for text in batch.column("text").to_pylist() if text and text.strip()]

    def __iter__(self):
        tokens = []
        for texts in self.texts():
            for encoded in self.encoding.encode_ordinary_batch(texts, num_threads=2) if texts else ():
                tokens += encoded
            while len(tokens) >= LENGTH:
                yield torch.tensor(tokens[:LENGTH])
                del tokens[:LENGTH]


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"part-{number}.parquet") for number in range(2)]
        for path in paths:
            rows = {"id": list(range(400)), "text": [TEXT, None, "", TEXT] * 100}
            pq.write_table(pa.table(rows, pa.schema([("id", pa.int64()), ("text", pa.string())])), path)
        model = torch.nn.Embedding(256, 4)
        for step, tokens in enumerate(DataLoader(Packed(paths), batch_size=4, num_workers=1)):
            model.zero_grad()
            model(tokens).mean().backward()
            model.weight.data -= 0.1 * model.weight.grad
            print("step", step, flush=True)
            if step == 20:
                break


if __name__ == "__main__":
    main()
