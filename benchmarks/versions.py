"""The verdicts on other versions of Python and torch: a core of scenarios in an environment for each, as a table.

Each environment is made from the package index with plain pip, with unstuck itself installed in it, and takes several
gigabytes: torch's builds for GPUs come along and run on the CPU. It is removed once its scenarios have run, unless
--keep says otherwise. The exit code is 1 if a verdict is another than the scenario expects, 2 if an environment could
not be made.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
# Of Python, of torch, and what torch needs of others.
VERSIONS = (
    ("3.10", "2.2.2", ("numpy<2",)),
    ("3.11", "2.4.1", ()),
    ("3.12", "2.6.0", ("setuptools",)),
    ("3.12", "2.9.1", ()),
    ("3.13", "2.13.0", ()),
    ("3.13", "2.15.0", ()),
)
# What needs no library but torch, of every family, with the healthy ones that are most alike.
CORE = [
    "worker-python-exception", "uncaught-exception", "worker-segfault", "worker-killed", "main-killed",
    "exited-with-code", "stopped-from-outside", "worker-infinite-loop", "worker-infinite-loop-healthy",
    "worker-blocked-io", "worker-blocked-io-healthy", "fork-inherited-lock", "gil-held", "stuck-in-user-code",
    "stuck-in-user-code-healthy", "loop-without-batch", "shm-exhausted", "worker-oom-killed", "batch-not-picklable",
    "collate-unequal-shapes", "empty-loader-drop-last", "graph-accumulation", "iterable-duplicated",
    "sampler-no-set-epoch", "checkpoint-missing", "next-iter-every-step", "ddp-uneven-batches",
    "ddp-uneven-batches-healthy", "ddp-unused-parameters", "collective-timeout", "rank-crash-cascade",
    "rank0-only-collective", "silent-rank-data-stall", "rendezvous-peer-missing", "healthy-ddp-even",
    "healthy-big-checkpoint",
]  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ", ".join(named(one) for one in VERSIONS)
    parser.add_argument("--only", nargs="+", metavar="PYTHON/TORCH", help=f"some of {known}; 3.10/2.2 will do")
    parser.add_argument("--scenarios", nargs="+", metavar="NAME", default=CORE, help="others than the core")
    parser.add_argument("--folder", type=Path, help="where the environments are made (default: a temporary folder)")
    parser.add_argument("--keep", action="store_true", help="keep the environments, and use those that are there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there, too, as docs/versions.md")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    asked = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if asked.inside:
        return inside(asked.scenarios)
    chosen = [one for one in VERSIONS if asked.only is None or any(named(one).startswith(name) for name in asked.only)]
    if not chosen:
        print(f"versions: none of these is known: {' '.join(asked.only)}; --help lists them", file=sys.stderr)
        return 2
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="unstuck-versions-"))
    try:
        found = {named(one): tried(one, folder, asked) for one in chosen}
    except KeyboardInterrupt:
        print("versions: interrupted", file=sys.stderr)
        return 130
    finally:
        if asked.folder is None and not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)
    text = table(found, asked.scenarios)
    print(text)
    if asked.markdown is not None:
        asked.markdown.write_text(page(text))
    if any(one is None for one in found.values()):
        return 2
    return 0 if all(one["right"] for rows in found.values() for one in rows.values()) else 1


def named(version):
    return f"{version[0]}/{version[1]}"


def tell(what):
    print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True)


def tried(version, folder, asked):
    """What each scenario came to, by name. None: there is no such environment."""
    place = folder / named(version).replace("/", "-torch")
    try:
        python = made(version, place)
        return run(version, python, asked.scenarios)
    except Missing as reason:
        tell(f"{named(version)}: {reason}")
        return None
    finally:
        if not asked.keep:
            shutil.rmtree(place, ignore_errors=True)


class Missing(Exception):  # noqa: N818  (a reason, not an error)
    """An environment that cannot be made, and why."""


def made(version, place):
    python = place / "bin" / "python"
    if (place / "made").exists():
        return python
    interpreter = found_python(version[0])
    tell(f"{named(version)}: making an environment with {interpreter}, which takes minutes and gigabytes")
    for command in (
        [interpreter, "-m", "venv", place],
        [python, "-m", "pip", "install", f"torch=={version[1]}", *version[2]],
        [python, "-m", "pip", "install", "-e", PROJECT, *version[2]],
    ):
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if ended.returncode:
            raise Missing(f"{' '.join(map(str, command))} failed: {ended.stdout.strip()[-400:]}")
    (place / "made").touch()
    return python


def found_python(version):
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for name in [*sorted(map(str, root.glob(f"versions/{version}.*/bin/python"))), shutil.which(f"python{version}")]:
        if name and subprocess.run([name, "-c", ""], capture_output=True, check=False).returncode == 0:
            return name
    raise Missing(f"there is no Python {version} here")


def run(version, python, names):
    """Each line that comes is one scenario's end."""
    command = [python, __file__, "--inside", "--scenarios", *names]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    found = {}
    try:
        for line in process.stdout:
            one = json.loads(line)
            found[one["name"]] = one
            tell(f"{named(version)}: {len(found)} of {len(names)}: {one['name']}: {mark(one)}")
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    if process.returncode:
        raise Missing(f"the scenarios could not be run (exit code {process.returncode})")
    return found


def inside(names):
    """In the environment itself."""
    from unstuck.demo.scenarios import all_scenarios, run_in_passing
    from unstuck.demo.surroundings import Unavailable
    from unstuck.errors import UserError

    scenarios = all_scenarios()
    for name in names:
        expected = scenarios[name].expect
        try:
            said = run_in_passing(scenarios[name]).verdict()
        except Unavailable as reason:
            said = f"not run: {reason}"
        except (UserError, subprocess.TimeoutExpired) as error:
            said = f"{type(error).__name__}: {error}"[:200]
        right = said == expected or said.startswith("not run")
        print(json.dumps({"name": name, "expected": expected, "said": said, "right": right}), flush=True)
    return 0


def mark(one):
    if one["said"] == one["expected"]:
        return "right"
    return one["said"]


def table(found, names):
    lines = ["| scenario | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    for name in names:
        cells = ["-" if rows is None or name not in rows else mark(rows[name]) for rows in found.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    counts = [
        "-" if rows is None else f"{sum(one['said'] == one['expected'] for one in rows.values())} of {len(rows)}"
        for rows in found.values()
    ]
    return "\n".join([*lines, "| **right** | " + " | ".join(counts) + " |"])


def page(text):
    return f"""# Versions

`make versions` runs these scenarios with each of these versions of Python and torch (`Python/torch`), unstuck installed
beside it. *right* is the verdict that the scenario expects; anything else is what was said instead. Last run:
{time.strftime("%Y-%m-%d")}, on CPUs.

{text}
"""


if __name__ == "__main__":
    sys.exit(main())
