"""A time budget for a run of the tests: tests that have not started when it is spent are skipped and counted in the summary.

`--budget SECONDS` counts from the start of pytest, for all of its processes together. `--share SECONDS` is the most that
one process spends on the tests of one file, so that a long list does not keep the files after it from being run; those of
`FAVOURED` have three shares, and those of `WHOLE` are not limited. A test that has begun is never cut off. What is left out is skipped, so a run without
failures ends green.
"""

import collections
import time

import pytest

SPENT = "left out: time budget"
SHARE_SPENT = "left out: share of its file"
FAVOURED: set[str] = set()
WHOLE: set[str] = set()
DEADLINE = pytest.StashKey[float]()
IN_FILES = pytest.StashKey[collections.Counter[str]]()


def pytest_addoption(parser):
    parser.addoption("--budget", type=float, metavar="SECONDS", help="leave out the tests that begin after this time")
    parser.addoption("--share", type=float, metavar="SECONDS", help="the most that a process spends on one file")


def pytest_configure(config):
    config.stash[IN_FILES] = collections.Counter()
    budget = config.getoption("--budget")
    if budget is not None:
        # A process of xdist counts from the start of the one that made it.
        made = getattr(config, "workerinput", {}).get("deadline")
        config.stash[DEADLINE] = time.time() + budget if made is None else made


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    if DEADLINE in node.config.stash:
        node.workerinput["deadline"] = node.config.stash[DEADLINE]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    began = time.time()
    try:
        return (yield)
    finally:
        item.config.stash[IN_FILES][item.path.name] += time.time() - began


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip before any fixture is made."""
    share = item.config.getoption("--share")
    own = item.config.stash[IN_FILES][item.path.name]
    if time.time() > item.config.stash.get(DEADLINE, float("inf")):
        pytest.skip(SPENT)
    if item.path.stem in WHOLE:
        return
    if share is not None and own > share * (3 if item.path.stem in FAVOURED else 1):
        pytest.skip(SHARE_SPENT)


def pytest_terminal_summary(terminalreporter):
    """Print how many tests were left out, and of which files."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple)]
    for reason in (SPENT, SHARE_SPENT):
        files = collections.Counter(report.nodeid.split("::")[0] for report in skipped if reason in report.longrepr[2])
        if files:
            terminalreporter.section(f"{files.total()} tests {reason}")
            for file, count in sorted(files.items()):
                terminalreporter.line(f"{count:6d}  {file}")
