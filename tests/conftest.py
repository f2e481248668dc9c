"""Configuration of all tests: two CPU devices, 64-bit numbers, no silent promotion, checked types; shared fixtures."""

import itertools
import os
import pathlib
import zlib

# Read once, when jax starts its backend: this has to come before the first import of it. Nearly all the time of these
# tests is compilation, and a quarter of that is optimisation that their small arrays do not repay; `make test-full` runs
# the programs that users run.
os.environ["XLA_FLAGS"] = " ".join(
    [
        "--xla_force_host_platform_device_count=2",
        *["--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"]
        * (os.environ.get("LRCSSM_TEST_OPTIMISED", "0") == "0"),
        os.environ.get("XLA_FLAGS", ""),
    ]
)

# Nothing is written to the cache of whoever runs the tests.
os.environ.setdefault("LRCSSM_COMPILATIONS", "off")

import hypothesis
import jax
import jaxtyping
import pytest
from archives import serving

pytest_plugins = ["budget"]

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

if os.environ.get("LRCSSM_TYPECHECK", "1") != "0":
    jaxtyping.install_import_hook("lrcssm", "beartype.beartype")

# The first example of a property also compiles, which no deadline foresees; the same examples run every time.
hypothesis.settings.register_profile("lrcssm", deadline=None, derandomize=True)
hypothesis.settings.load_profile("lrcssm")


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


# A run with --slow may not have the time for everything: what has found mistakes comes first, and has more of it.
FIRST = (
    "test_random_cells", "test_tolerance", "test_errors", "test_gradients", "test_agreement", "test_contract", "test_every_architecture",
    "test_estimator_checks", "test_every_estimator", "test_ridge", "test_ridge_export", "test_ridge_stream", "test_forecaster", "test_export", "test_walks", "test_hostile_values",
    "test_readers_damage", "test_readers_safety", "test_kills", "test_checkpoint", "test_lengths", "test_devices", "test_docs",
)  # fmt: skip


def pytest_configure(config):
    budget = config.pluginmanager.get_plugin("budget")
    budget.FAVOURED.update(FIRST)
    budget.WHOLE.update(("test_estimator_checks", "test_ridge_export"))


def in_order(item):
    """File by file; in each the slow tests first, as the others have been run by `make test`, and in an order by chance, so that
    those for which there is time are a sample of all."""
    name, slow = item.path.stem, "slow" in item.keywords
    rank = FIRST.index(name) if name in FIRST else len(FIRST)
    return rank, str(item.path), not slow, zlib.crc32(item.nodeid.encode()) if slow else 0


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        items.sort(key=in_order)
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow or make test-slow"))


MOST_MAPPINGS = 20_000  # of memory; Linux allows a process 65,530
_tests_since = itertools.count(1)


def _mappings():
    """Number of memory mappings of this process, where the system counts them."""
    try:
        return pathlib.Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


@pytest.fixture(autouse=True)
def bounded_memory():
    """Drop compiled programs before they use up the memory mappings of the process; each has dozens, and XLA crashes without."""
    yield
    tests = next(_tests_since)
    if tests % 300 == 0 or (tests % 5 == 0 and _mappings() > MOST_MAPPINGS):
        jax.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def no_cache_of_the_user(tmp_path_factory):
    """Neither read nor write the cache folder or the data folder of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("LRCSSM_DATA", raising=False)
        before = jax.config.jax_compilation_cache_dir
        yield
        jax.config.update("jax_compilation_cache_dir", before)


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
    """A local archive server, controlled by the test."""
    with serving() as made:
        yield made


@pytest.fixture
def get(server, tmp_path):
    """Fetches from that server into a directory of this test, without waiting between attempts."""
    from lrcssm.data.archive import fetch  # not above: shapes and types are checked in what is imported after the hook

    return lambda name="Tiny", **more: fetch(
        name, **({"directory": tmp_path, "url": server.url, "timeout": 5.0, "pause": 0.0} | more)
    )
