# expect: ddp-uneven-batches
# outside: collectives-out-of-step
# launch: -m torch.distributed.run --nproc-per-node 2
"""With accelerate: each process drops tracks that are too quiet, and one has fewer left. After the epoch it saves its
state, for which it waits for the other."""

import tempfile

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TRACKS, BANDS = 240, 8


def loud_ones(process):
    generator = torch.Generator().manual_seed(20 + process)
    tracks = torch.rand(TRACKS, BANDS, generator=generator)
    tracks[: 60 * process] *= 0.1
    return TensorDataset(tracks[tracks.mean(1) > 0.2])


def main(folder):
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(BANDS, 3), nn.Linear(3, BANDS))
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    loader = DataLoader(loud_ones(accelerator.process_index), batch_size=16, shuffle=True)
    for epoch in range(3):
        for (tracks,) in loader:
            loss = nn.functional.mse_loss(model(tracks), tracks)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.wait_for_everyone()
        accelerator.save_state(f"{folder}/epoch-{epoch}")
        accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
