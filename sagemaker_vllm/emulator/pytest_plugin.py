"""A pytest fixture for projects that call SageMaker through this package or boto3.

Name this module in your top-level `conftest.py`:

```python
pytest_plugins = ["sagemaker_vllm.emulator.pytest_plugin"]
```
"""

from collections.abc import Iterator

import pytest

from sagemaker_vllm.emulator import Emulator


@pytest.fixture
def sagemaker_vllm_emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """Run an emulator for one test, with the environment set so that every AWS client finds it.

    Its queue is empty: `sagemaker_vllm_emulator.enqueue(Reply("Hello"))` gives it an answer.
    """
    # A profile of the developer would win over the made-up keys.
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    with Emulator() as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield emulator
