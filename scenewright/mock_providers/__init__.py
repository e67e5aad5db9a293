"""Mock providers: the wire formats of OpenAI, Anthropic and Gemini on this machine.

Behind them are the miniature's judges and generator and scripted chat models, with limits, latency
and faults on demand: for rehearsing a study without spending, and for tests through the providers'
own SDKs::

    async with serving(MockSettings(requests_per_minute=60)) as lab:
        client = AsyncOpenAI(base_url=f"{lab.url}/v1", api_key="mine", max_retries=0)
"""

from __future__ import annotations

from scenewright.mock_providers.faults import Fault, MockError
from scenewright.mock_providers.models import MODELS
from scenewright.mock_providers.server import MockProviders
from scenewright.mock_providers.serving import ThreadedMockProviders, serving, serving_thread
from scenewright.mock_providers.settings import MockSettings

__all__ = [
    "MODELS",
    "Fault",
    "MockError",
    "MockProviders",
    "MockSettings",
    "ThreadedMockProviders",
    "serving",
    "serving_thread",
]
