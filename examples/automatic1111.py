"""Draw with a running service (`scenewright serve`) as plug-ins for AUTOMATIC1111 do.

    python examples/automatic1111.py "a red ball on a table" 2

Only the standard library is used. Pictures are written to the working folder. The variables
SCENEWRIGHT_URL and SCENEWRIGHT_KEY name another service and its key.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

URL = os.environ.get("SCENEWRIGHT_URL", "http://127.0.0.1:8642")
KEY = os.environ.get("SCENEWRIGHT_KEY", "")


def asked(path: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON at ``path``; with ``body`` it is posted."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | ({"X-API-Key": KEY} if KEY else {})
    request = urllib.request.Request(f"{URL}/sdapi/v1/{path}", data, headers)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def main(prompt: str, pictures: int) -> None:
    """Draw, telling the progress every second."""
    done = threading.Event()

    def tell() -> None:
        while not done.wait(1):
            found = asked("progress?skip_current_image=true")
            print(f"{found['progress']:4.0%}  {found['textinfo'] or ''}")

    telling = threading.Thread(target=tell)
    telling.start()
    try:
        reply = asked("txt2img", {"prompt": prompt, "batch_size": pictures})
    finally:
        done.set()
        telling.join()
    info = json.loads(reply["info"])
    for seed, image, run in zip(
        info["all_seeds"], reply["images"], reply["scenewright"], strict=False
    ):
        file = Path(f"{seed}.png")
        file.write_bytes(base64.b64decode(image))
        print(f"{file}: SGScore {run['sgscore']['report']}, {run['page']}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
