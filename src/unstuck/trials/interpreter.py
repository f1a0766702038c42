"""Which Python runs the user's loader: unstuck may be installed somewhere else."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

from ..errors import UserError

ASK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


def chosen(wanted: str | None) -> str:
    """As asked; else the active environment's, our own, or the first on the path: the first that has torch."""
    if wanted:
        if shutil.which(wanted) is None:
            raise UserError(f"there is no Python {wanted}", "--python names an interpreter, such as .venv/bin/python")
        return wanted
    if importlib.util.find_spec("torch") is not None and "VIRTUAL_ENV" not in os.environ:
        return sys.executable
    active = os.path.join(os.environ.get("VIRTUAL_ENV", ""), "bin", "python")
    for one in (active, sys.executable, shutil.which("python3") or "", shutil.which("python") or ""):
        if one and shutil.which(one) and subprocess.run([one, "-c", ASK], check=False).returncode == 0:
            return one
    raise UserError("no Python here has torch", "--python names the interpreter that your training runs with")
