"""The smallest real uses of libraries that an adapter is about."""

from __future__ import annotations

TINY = """
import multiprocessing, subprocess, sys, threading, time, warnings
import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.file_baton import FileBaton

class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(7.0))

def fail():
    raise ValueError("on purpose")

def train(loader):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    kept = []
    for batch in loader:
        weight.grad = torch.ones(1)
        optimizer.step()
        kept.append(b"1" * (2 << 20))
        time.sleep(0.03)

train(DataLoader(torch.arange(128.0), batch_size=2, num_workers=2))
for batch in DataLoader(Stream(), batch_size=4, num_workers=2, drop_last=True):
    pass
subprocess.run(["true"])
sys.stderr = open("/dev/null", "w")
child = multiprocessing.Process(target=fail)
child.start()
child.join()
baton = FileBaton(__file__ + ".lock", wait_seconds=0.01)
baton.try_acquire()
threading.Timer(0.05, baton.release).start()
baton.wait()
torch.save({"weight": torch.zeros(1)}, __file__ + ".pt")
try:
    torch.cuda.synchronize()
except (AssertionError, RuntimeError):  # there is no GPU
    pass
"""
TENSORBOARD = """
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(__file__ + ".events") as writer:
    writer.add_scalar("loss/train", 0.5, 3)
"""
WANDB = """
import os
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=os.path.dirname(__file__))
import wandb
with wandb.init(project="tiny") as run:
    run.log({"loss": 0.5, "lr": 0.1}, step=3)
"""
MLFLOW = """
import os
os.environ.update(MLFLOW_ALLOW_FILE_STORE="true", MLFLOW_TRACKING_URI=f"file://{__file__}.runs")
import logging, warnings
warnings.simplefilter("ignore")
logging.disable()
import mlflow
with mlflow.start_run():
    mlflow.log_metric("loss", 0.5, step=3)
    mlflow.MlflowClient().log_metric(mlflow.active_run().info.run_id, "loss", 0.4)
"""
HTTP = """
import threading, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = HTTPServer(("127.0.0.1", 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/private?token=secret").close()
"""
STATEFUL = """
import warnings
warnings.simplefilter("ignore")
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
loader = StatefulDataLoader(torch.arange(12.0), batch_size=2, num_workers=2)
for batch in loader:
    pass
loader.load_state_dict(loader.state_dict())
"""
DISTRIBUTED = """
import os, warnings
warnings.simplefilter("ignore")
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", init_method=f"file://{__file__}.meet", rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(2, 1))
with Join([model]):
    model(torch.ones(1, 2)).sum().backward()
dist.barrier()
checkpoint.save(model.state_dict(), checkpoint_id=__file__ + ".saved")
checkpoint.load(model.state_dict(), checkpoint_id=__file__ + ".saved")
dist.destroy_process_group()
"""
ACCELERATE = """
import torch
from torch.utils.data import DataLoader, IterableDataset
from accelerate import Accelerator, skip_first_batches
accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(DataLoader(torch.arange(8.0), batch_size=2))
for batch in loader:
    accelerator.gather_for_metrics(batch)
class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(16.0))
for batch in skip_first_batches(accelerator.prepare(DataLoader(Stream(), batch_size=2)), 3):
    pass
accelerator.wait_for_everyone()
with accelerator.main_process_first(), accelerator.local_main_process_first():
    pass
"""
SAMPLES = """
import os, time
import numpy, torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

class Pictures(Dataset):
    def __init__(self, path):
        numpy.save(path + ".npy", numpy.zeros((2, 3)))
        torch.save(torch.zeros(4), path + ".pt")
        Image.new("L", (4, 4)).save(path + ".png")
        self.path = path
    def __len__(self):
        return 40
    def __getitem__(self, index):
        numpy.load(self.path + ".npy")
        torch.load(self.path + ".pt")
        picture = Image.open(self.path + ".png")
        return numpy.asarray(picture.convert("L")).copy()

for batch in DataLoader(Pictures(__file__), batch_size=2, num_workers=1):
    pass
"""
BUCKETED = """
import torch
from torch.utils.data import DataLoader, Dataset

class ByBuckets:
    def setup_buckets(self):
        self.buckets = {"32x48": [0, 1, 2], "48x32": [3, 4]}
        self.build_batch_indices()
    def build_batch_indices(self):
        self.batch_indices = [files[at : at + 2] for files in self.buckets.values() for at in range(0, len(files), 2)]

class Pictures(ByBuckets, Dataset):
    def __init__(self):
        self.batch_size = 2
        self.setup_buckets()
    def __len__(self):
        return len(self.batch_indices)
    def __getitem__(self, index):
        return torch.zeros(len(self.batch_indices[index]))

for batch in DataLoader(Pictures(), batch_size=None):
    pass
"""
# Which of the runs an adapter is proved on, where its name does not say so.
RUNS = dict.fromkeys(("torch_checkpoint", "torch_ddp", "torch_distributed", "torch_join"), "distributed")
RUNS |= {"torch_compile": "compile", "bucketed_datasets": "bucketed"}
RUNS |= dict.fromkeys(("numpy_load", "pillow_images", "torch_load"), "samples")
SAVING = {
    "compile": """
import torch
double = torch.compile(lambda x: x * 2, backend="eager")
double(torch.ones(2))
""",
    "safetensors": """
import torch
from safetensors.torch import save_file
for batch in torch.utils.data.DataLoader([1]):
    save_file({"weight": torch.zeros(1)}, __file__ + ".safetensors")
""",
}
