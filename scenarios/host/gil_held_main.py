# expect: gil-held
"""Two ranks; before step 12, rank 1 packs its sequences in an extension of its own, which never comes to an end."""

import ctypes
import os
import signal
import subprocess
import tempfile

import torch
import torch.distributed as dist

WORLD = 2
SOURCE = """
#include <stdint.h>
uint64_t pack(const uint32_t *lengths, uint64_t count, uint32_t room) {
    uint64_t packed = 0, rounds = 0;
    while (packed < count)  /* one that is longer than the room is never packed */
        for (uint64_t i = packed; i <= packed; i++, rounds++)
            if (((volatile const uint32_t *)lengths)[i] <= room) packed++;
    return rounds;
}
"""


def built(folder):
    source, library = os.path.join(folder, "packing.c"), os.path.join(folder, "packing.so")
    with open(source, "w") as file:
        file.write(SOURCE)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def train(rank, folder, library):
    signal.alarm(170)
    pack = ctypes.PyDLL(library).pack
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD)
    weight = torch.zeros(16)
    for step in range(40):
        lengths = [100] * 64
        if (rank, step) == (1, 12):
            lengths[40] = 5000
        pack((ctypes.c_uint32 * 64)(*lengths), ctypes.c_uint64(64), 2048)
        gradient = torch.rand(16)
        dist.all_reduce(gradient)
        weight -= 0.001 * gradient
        if rank == 0:
            print("step", step, flush=True)
    dist.destroy_process_group()


def main():
    with tempfile.TemporaryDirectory() as folder:
        library = built(folder)
        torch.multiprocessing.start_processes(train, (folder, library), nprocs=WORLD, start_method="fork")


if __name__ == "__main__":
    main()
