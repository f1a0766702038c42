"""Read a data set as training would, and say which file, which sample and which byte is bad.

PATH is a file, a glob, a brace range, a folder, a manifest, or an address that fsspec can open.

  unstuck check 'shards/train-{000000..000127}.tar'
  unstuck check data/ --decode --ranks 8 --workers 4
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import msgspec

from ..checking.crew import Crew
from ..checking.noting import Wish
from ..checking.paths import find
from ..diagnose import report_on
from ..model.checked import Asked, Data
from ..model.evidence import Evidence, Run
from ..views.as_json import render
from ..views.terminal import console_for, show
from .main import FOUND


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="file, glob, brace range, folder, manifest or address")
    parser.add_argument("--decode", action="store_true", help="really decode images, JSON and arrays")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--with-evidence", action="store_true", help="put what was seen into the JSON")


def run(arguments: argparse.Namespace) -> int:
    found = find(arguments.paths)
    processes = min(len(os.sched_getaffinity(0)), len(found.files))
    began = time.monotonic()
    with Crew(processes) as crew:
        tasks = ([one] for one in found.files)
        files = [one.file for one in crew.read(tasks, Wish(decode=arguments.decode), lambda _: None)]
    asked = Asked(arguments.paths, decode=arguments.decode)
    data = Data(asked, sorted(files, key=lambda one: one.path), absent=found.absent, seconds=time.monotonic() - began)
    run = Run(id="check", command=["unstuck", *sys.argv[1:]], started=time.time(), host=os.uname().nodename)
    report = report_on(Evidence(run=run, data=data))
    if arguments.json:
        print(render(report if arguments.with_evidence else msgspec.structs.replace(report, evidence=None)))
    else:
        show(report, console_for(sys.stdout))
    return FOUND if report.findings else 0
