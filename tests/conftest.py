"""What every test runs under: two CPU devices, 64-bit numbers, no silent promotion, checked types; shared fixtures."""

import itertools
import os
import zlib

# Read once, when jax starts its backend: this has to come before the first import of it. Nearly all the time of these
# tests is compilation, and a quarter of that is optimisation that their small arrays do not repay.
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0 " + os.environ.get("XLA_FLAGS", "")
)

# Nothing is written to the cache of whoever runs the tests.
os.environ.setdefault("LRCSSM_COMPILATIONS", "off")

import hypothesis
import jax
import jaxtyping
import pytest
from archives import serving

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

if os.environ.get("LRCSSM_TYPECHECK", "1") != "0":
    jaxtyping.install_import_hook("lrcssm", "beartype.beartype")

# The first example of a property also compiles, which no deadline foresees; the same examples run every time.
hypothesis.settings.register_profile("lrcssm", deadline=None, derandomize=True)
hypothesis.settings.load_profile("lrcssm")


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow or make test-slow"))


_tests_since = itertools.count(1)


@pytest.fixture(autouse=True)
def bounded_memory():
    """Compiled functions are kept for some hundred tests: each is a mapping of memory, and a process has only so many."""
    yield
    if next(_tests_since) % 300 == 0:
        jax.clear_caches()


@pytest.fixture
def getkey(request):
    """A function that gives a fresh random key at each call, the same ones each time this test runs."""
    root = jax.random.key(zlib.crc32(request.node.nodeid.encode()))
    calls = itertools.count()
    return lambda: jax.random.fold_in(root, next(calls))


@pytest.fixture
def defaults():
    """A training step needs JAX's own promotion, which Optax relies on."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def place(monkeypatch, tmp_path):
    """A data directory of this test, and no other that it could find."""
    made = tmp_path / "data"
    made.mkdir()
    monkeypatch.setenv("LRCSSM_DATA", str(made))
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def server():
    """An archive on this machine, which does as the test tells it."""
    with serving() as made:
        yield made


@pytest.fixture
def get(server, tmp_path):
    """Fetches from that server into a directory of this test, without waiting between attempts."""
    from lrcssm.data.archive import fetch  # not above: shapes and types are checked in what is imported after the hook

    return lambda name="Tiny", **more: fetch(
        name, **({"directory": tmp_path, "url": server.url, "timeout": 5.0, "pause": 0.0} | more)
    )
