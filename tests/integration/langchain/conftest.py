"""What langchain-tests asks for."""

from collections.abc import Callable

import pytest


@pytest.fixture
def benchmark() -> Callable[[Callable[[], None]], None]:
    """Run what pytest-benchmark would time: the suites must not depend on the clock."""
    return lambda function: function()
