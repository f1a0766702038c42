"""The smallest real uses of libraries that read and tokenise documents."""

from __future__ import annotations

DOCUMENTS = """
import torch
import pyarrow as pa, pyarrow.parquet as pq
import tiktoken
from tokenizers import Tokenizer, models, pre_tokenizers

PATH = __file__ + ".parquet"
pq.write_table(pa.table({"text": ["good morning", "  ", None, ""] * 25}), PATH, row_group_size=20)
TOKENIZER = Tokenizer(models.WordLevel({"good": 0, "morning": 1}, unk_token="good"))
TOKENIZER.pre_tokenizer = pre_tokenizers.Whitespace()
RANKS = {bytes([byte]): byte for byte in range(256)}
ENCODING = tiktoken.Encoding("bytes", pat_str=r"\\w+|\\s", mergeable_ranks=RANKS, special_tokens={})
"""
USED = """
file = pq.ParquetFile(PATH)
file.read_row_group(0)
TOKENIZER.encode_batch(["good morning"] * 3)
ENCODING.encode_ordinary("good")
"""
HUGGING = """
import os, warnings
warnings.simplefilter("ignore")
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=__file__ + ".home", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

backend = Tokenizer(models.WordLevel({"good": 0, "morning": 1}, unk_token="good"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
TOKENIZER = PreTrainedTokenizerFast(tokenizer_object=backend)
"""
TRANSFORMERS = (
    HUGGING
    + """
TOKENIZER(["good morning", "good"])
"""
)
DATASETS = """
import os, warnings
warnings.simplefilter("ignore")
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=__file__ + ".home")
import torch, datasets
datasets.disable_progress_bars()
made = datasets.Dataset.from_dict({"text": ["a", "b"] * 20})
print(len(made.map(lambda one: {"size": len(one["text"])})))
"""
FILELOCK = """
import torch
from filelock import FileLock
with FileLock(__file__ + ".lock"):
    pass
"""
WEBDATASET = """
import warnings
import torch, webdataset as wds
warnings.simplefilter("ignore")
for number in range(2):
    with wds.TarWriter(f"{__file__}.{number}.tar") as shard:
        for sample in range(5):
            shard.write({"__key__": f"{number}{sample}", "txt": "words"})
urls = [__file__ + ".0.tar", __file__ + ".missing.tar", __file__ + ".1.tar"]
words = wds.WebDataset(urls, shardshuffle=False, handler=wds.ignore_and_continue).shuffle(3).decode()
assert len(list(wds.WebLoader(words, batch_size=None, num_workers=1))) == 10
"""
TARFILE = """
import tarfile, torch

class Archives(torch.utils.data.Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, index):
        with open(__file__ + ".tar", "wb") as file:
            file.write(b"no archive" * 100)
        try:
            return tarfile.open(__file__ + ".tar").getnames()
        except tarfile.ReadError:
            return 0

for batch in torch.utils.data.DataLoader(Archives()):
    pass
"""
GZIP = """
import gzip, tarfile, torch

class Lines(torch.utils.data.Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, index):
        with tarfile.open(__file__ + ".tar.xz", "w:xz"):
            pass
        tarfile.open(__file__ + ".tar.xz").close()
        with gzip.open(__file__ + ".gz", "wb") as file:
            file.write(bytes(range(256)) * 100)
        with open(__file__ + ".gz", "r+b") as file:
            file.truncate(200)
        try:
            return gzip.open(__file__ + ".gz").read()
        except EOFError:
            return 0

for batch in torch.utils.data.DataLoader(Lines()):
    pass
"""
TEXTS = {"pyarrow": DOCUMENTS + USED, "transformers": TRANSFORMERS, "datasets": DATASETS, "filelock": FILELOCK}
TEXTS |= {"webdataset": WEBDATASET, "tarfile": TARFILE, "gzip": GZIP}
RUNS = dict.fromkeys(("tokenizers_encode", "tiktoken_encode"), "pyarrow")
IMPORTS = {
    "pyarrow": "pyarrow.parquet",
    "tokenizers": "tokenizers",
    "tiktoken": "tiktoken",
    "transformers": "transformers.tokenization_utils_base",
    "datasets": "datasets",
    "filelock": "filelock",
    "webdataset": "webdataset",
    "tarfile": "tarfile",
    "gzip": "gzip",
}
