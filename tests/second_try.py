"""What `make scenarios` says of scenarios that were tried a second time (`--reruns 1`, pytest-rerunfailures).

One that fails twice is red, as ever. One that passes the second time is listed, and the run is red all the same where
more than one in a hundred needed it: so many are no bad luck but a verdict that depends on what else the machine does.
"""

from __future__ import annotations

TOLERATED = 0.01


def needed(reporter) -> list[str]:
    """Tests that were tried a second time, in the order of their names."""
    return sorted({report.nodeid for report in reporter.stats.get("rerun", ())})


def tried(reporter) -> int:
    """How many came to a result."""
    return len({report.nodeid for outcome in ("passed", "failed") for report in reporter.stats.get(outcome, ())})


def too_many(reporter) -> bool:
    return len(needed(reporter)) > TOLERATED * tried(reporter)


def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.exitstatus == 0 and too_many(reporter):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    names = needed(terminalreporter)
    if not names:
        return
    terminalreporter.section("tried a second time")
    for name in names:
        terminalreporter.write_line(name)
    share = f"{len(names)} of {tried(terminalreporter)} needed a second try"
    verdict = f"more than {TOLERATED:.0%}: this run fails" if too_many(terminalreporter) else f"at most {TOLERATED:.0%}"
    terminalreporter.write_line(f"{share}, {verdict}")
