"""What holds for every test: no network, and checkpoints that rebuild declared types only.

The libraries read these variables when they are imported, so they are set before any test is.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
