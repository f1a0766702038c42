"""Imports torch once, then runs each program it is told of in a fork of itself. Started by `running.Zygote`."""

import json
import os
import sys

import torch
import torch.utils.data  # noqa: F401
import torchdata.stateful_dataloader  # noqa: F401

import unstuck  # noqa: F401

SCRIPT = None
for line in sys.stdin:
    request = json.loads(line)
    pid = os.fork()
    if pid == 0:
        SCRIPT, folder = request["script"], request["folder"]
        os.setsid()
        for number, name in enumerate((os.devnull, f"{folder}/out", f"{folder}/err")):
            os.dup2(os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        process = sys.modules["_unstuck_inside.process"].process
        process.record_into(folder)
        process.recording(1)
        break
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)

if SCRIPT is not None:
    del request, folder, line, number, name
    main = sys.modules["__main__"].__dict__
    main["__file__"] = SCRIPT
    with open(SCRIPT) as source:
        code = compile(source.read(), SCRIPT, "exec")
    exec(code, main)
