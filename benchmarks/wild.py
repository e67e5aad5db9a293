"""Replies from the wild: every shape that compatible servers send, against every role.

``python -m benchmarks.wild [--quick]``. A mock server shows one shape after the other
(``scenewright.mock_providers.wild``), each to every role that meets it, made by the public
factories: judge, decision judge, chat model, composer, parser, director and image backend, each
time by a new account of a server of OpenAI's wire format. ``wrong_state`` counts calls that failed
where an answer could be had, were answered otherwise than without the shape, or were answered where
they should fail. ``needless_attempts`` are requests beyond those that are right: a final error is
sent once. ``remedy_named`` is the share of the final errors that hold all words of the remedy.
``--quick`` takes every fifth shape.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import Namespace
from typing import Any

from benchmarks._harness import benchmark
from benchmarks._wild import SETTINGS, Bench, Result
from scenewright.mock_providers import serving
from scenewright.mock_providers.wild import SHAPES, Shape

_QUICK = 5


async def tried(shapes: tuple[Shape, ...]) -> list[Result]:
    """Return the result of every shape with every role that meets it."""
    async with serving(SETTINGS) as mock:
        bench = Bench(mock)
        return [await bench.try_shape(shape, role) for shape in shapes for role in shape.roles]


@benchmark("every fifth shape")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Try all shapes and print what is wrong."""
    # Each lost call is logged, and told below.
    logging.getLogger("scenewright").addHandler(logging.NullHandler())
    results = asyncio.run(tried(SHAPES[:: _QUICK if options.quick else 1]))
    for result in results:
        if result.problem:
            print(result.problem)
    final = [result for result in results if result.shape.decision == "final"]
    return len(results), {
        "shapes": len({result.shape.name for result in results}),
        "roles": len({result.role for result in results}),
        "wrong_state": sum(not result.is_right for result in results),
        "needless_attempts": sum(result.needless for result in results),
        "remedy_named": sum(not result.missing_words for result in final) / len(final),
    }


if __name__ == "__main__":
    main()
