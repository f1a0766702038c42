"""The smallest real uses of libraries that stream their data, or are loaders of their own."""

from __future__ import annotations

from pathlib import Path

APART = Path(__file__).parents[2] / ".venv" / "apart"  # what tests/apart.txt asks for

HUGGING_STREAM = """
import os, warnings
warnings.simplefilter("ignore")
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=__file__ + ".home")
import logging
import torch, datasets
from torch.utils.data import DataLoader
datasets.disable_progress_bars()
datasets.logging.set_verbosity_error()
rows = datasets.Dataset.from_dict({"x": list(range(40))})
"""
STREAMED = (
    HUGGING_STREAM
    + """
for batch in DataLoader(rows.to_iterable_dataset(num_shards=3).with_format("torch"), batch_size=4, num_workers=2):
    pass
"""
)
MAPPED = (
    HUGGING_STREAM
    + """
class Blocks:
    def __init__(self, rows):
        self.rows = rows.shuffle(seed=1).with_format("torch")
    def __len__(self):
        return 4
    def __getitem__(self, number):
        return self.rows[number * 10 : number * 10 + 10]

blocks = Blocks(rows)
for batch in DataLoader(blocks, batch_size=None):
    pass
blocks.rows[:20]
"""
)
NODES = """
import torch
import torchdata.nodes as tn

def double(x):
    return 2 * x

def make():
    node = tn.ParallelMapper(tn.IterableWrapper(range(40)), double, num_workers=2, method="process")
    return tn.Loader(tn.Batcher(node, batch_size=4))

loader = make()
for passes in range(2):
    for batch in loader:
        pass
again = make()
again.load_state_dict(loader.state_dict())
print(len(list(again)))
"""
LITDATA = f"""
import sys
sys.path.append({str(APART)!r})
import os, warnings
warnings.simplefilter("ignore")
os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = __file__ + ".cache"
import torch, litdata
from litdata.streaming.cache import Cache
os.makedirs(__file__ + ".data")
cache = Cache(input_dir=__file__ + ".data", chunk_size=8)
for number in range(40):
    cache[number] = {{"x": number}}
cache.done()
cache.merge()
stream = litdata.StreamingDataset(__file__ + ".data")
for batch in litdata.StreamingDataLoader(stream, batch_size=4, num_workers=2):
    pass
"""
# `streaming` imports torchvision for two names that nothing here uses.
MOSAICML = f"""
import sys, types, warnings
from importlib.machinery import ModuleSpec
warnings.simplefilter("ignore")
sys.path.append({str(APART)!r})
NAMES = {{"": {{}}, ".datasets": {{"VisionDataset": object}}, ".transforms": {{}}}}
NAMES[".transforms.functional"] = {{"to_tensor": None}}
for name, known in NAMES.items():
    module = sys.modules["torchvision" + name] = types.ModuleType("torchvision" + name)
    module.__path__, module.__spec__ = [], ModuleSpec(module.__name__, None)
    vars(module).update(known)
import torch
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader
with MDSWriter(out=__file__ + ".mds", columns={{"x": "int"}}, size_limit=200) as writer:
    for number in range(40):
        writer.write({{"x": number}})
stream = StreamingDataset(local=__file__ + ".mds", batch_size=4)
for batch in DataLoader(stream, batch_size=4, num_workers=2):
    pass
"""
STREAMS = {"streamed": STREAMED, "mapped": MAPPED, "nodes": NODES, "litdata": LITDATA, "mosaicml": MOSAICML}
RUNS = {"datasets_streams": "streamed", "datasets_rows": "mapped", "torchdata_nodes": "nodes"}
# What has to be written before an adapter's modules are there.
BEFORE = {
    "litdata": f"import sys; sys.path.append({str(APART)!r})\nimport litdata\n",
    "mosaicml": MOSAICML.partition("from torch.utils.data")[0],
    "torchdata_nodes": "import torchdata.nodes\n",
}
