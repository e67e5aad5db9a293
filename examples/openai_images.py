"""Draw with a running service (`scenewright serve`) through the official OpenAI client.

    python examples/openai_images.py "A red ball lies on a table."
    python examples/openai_images.py "A red ball lies on a table." photo.png    # repair a picture

Pictures of the rounds and the kept one are written to the working folder. The variables
SCENEWRIGHT_URL and SCENEWRIGHT_KEY name another service and its key.
"""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

import openai


def main(prompt: str, picture: str | None) -> None:
    """Draw ``prompt``, or repair ``picture`` until it shows that; tell the facts at the end."""
    url = os.environ.get("SCENEWRIGHT_URL", "http://127.0.0.1:8642")
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=os.environ.get("SCENEWRIGHT_KEY", "none"))
    if picture is None:
        stream = client.images.generate(prompt=prompt, stream=True, partial_images=3)
    else:
        stream = client.images.edit(
            image=Path(picture), prompt=prompt, stream=True, partial_images=3
        )
    for event in stream:
        notes = event.model_extra["scenewright"]
        if event.type.endswith("partial_image"):
            file = Path(f"round-{notes['round']}.png")
            file.write_bytes(base64.b64decode(event.b64_json))
            print(f"round {notes['round']}: {file}")
            continue
        Path("kept.png").write_bytes(base64.b64decode(event.b64_json))
        (run,) = notes["runs"]
        print(f"kept: kept.png, round {run['best_round']}; all of it: {run['page']}")
        for fact in run["facts"]:
            print(f"  {fact['verdict']:>8}  {fact['statement']}")
        print(f"SGScore {run['sgscore']['loop']} by the loop, {run['sgscore']['report']} by others")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
