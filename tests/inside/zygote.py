"""Imports torch once, then runs each program it is told of in a fork of itself. Started by `running.Zygote`."""

import atexit
import gc
import json
import os
import sys
import threading

import torch
import torch.utils.data
import torchdata.stateful_dataloader  # noqa: F401

import unstuck  # noqa: F401

# Whatever torch imports at the first step and the first batch is imported here, once.
weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.ones(1)
torch.optim.SGD([weight], lr=0.1).step()
for _ in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(weight)):
    pass
del weight, _
gc.collect()
gc.freeze()

SCRIPT = None
for line in sys.stdin:
    request = json.loads(line)
    pid = os.fork()
    if pid == 0:
        SCRIPT, folder = request["script"], request["folder"]
        os.setsid()
        for number, name in enumerate((os.devnull, f"{folder}/out", f"{folder}/err")):
            os.dup2(os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        process = sys.modules["_unstuck_inside.core.process"].process
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
    ended = 0
    try:
        exec(code, main)
    except SystemExit as end:
        ended = end.code if isinstance(end.code, int) else 1
    except Exception:  # noqa: BLE001  (this is the end of the program)
        sys.excepthook(*sys.exc_info())
        ended = 1
    # Then as Python ends, but for the taking apart of all of torch, which takes a second in a fork.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(ended or 0)
