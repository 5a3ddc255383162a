import pytest
from fake_cuda import FakeCuda, compile_shim, missing_tool

from semimedref.files import exclusive


@pytest.fixture(scope="session")
def fake(cache):
    """The process of this worker; the shim is compiled once for all workers."""
    if missing_tool():
        pytest.skip(missing_tool())
    folder = cache / "shim"
    with exclusive(folder / "lock"):
        shim = folder / "noop_cuda.so"
        made = FakeCuda(shim if shim.exists() else compile_shim(folder))
    yield made
    made.close()
