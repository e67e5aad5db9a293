"""``scenewright mock``: a local server with the wire formats of model providers."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Annotated

import typer

from scenewright.cli import options
from scenewright.cli.app import App
from scenewright.cli.console import fail, note, run_async, say, stop_on_signal, text_of
from scenewright.core.sockets import is_loopback

app = App(help="Run a local server that speaks the formats of OpenAI, Anthropic and Gemini.")


@app.command()
def serve(
    context: typer.Context,
    host: str = "127.0.0.1",
    port: options.Port = 8765,
    requests_per_minute: options.OptionalPositive = None,
    tokens_per_minute: options.OptionalPositive = None,
    window: Annotated[float, typer.Option(min=0.1, max=60)] = 60.0,
    concurrent: options.OptionalPositive = None,
    latency: Annotated[float, typer.Option(min=0)] = 0.2,
    jitter: Annotated[float, typer.Option(min=0)] = 0.0,
    fault: list[str] | None = None,
    swap: list[str] | None = None,
    quirk: list[str] | None = None,
    like: str = "",
    shape: str = "",
    lenient: bool = False,
    model: list[str] | None = None,
    tokens_per_second: Annotated[float | None, typer.Option(min=0.01)] = None,
    seed: int = 0,
    allow_remote: bool = False,
) -> None:
    """Serve the miniature's models behind the providers' formats until Ctrl-C.

    Point a provider's SDK, or an account of scenewright.toml, at the addresses it prints. Any
    API key is accepted; each key is an account with its own limits. Models: judge-a, judge-b,
    judge-c, judge-d, judge-weak, judge-eager, and instant, which answers at once from a hash;
    script:NAME, which talks and calls tools by rules; miniature and instant-image, which draw.
    Models of the providers are answered for by these; what the provider refuses is refused.
    Faults, swaps and quirks can be changed while it runs (POST /lab/faults, /lab/swaps,
    /lab/quirks), and GET /lab/report lists the requests of every account.

    Examples of use:

      scenewright mock serve --requests-per-minute 500 --latency 0.8 --fault 503=0.01

      scenewright mock serve --like openrouter

      scenewright mock serve --shape rate-limit-in-200

    With one of the last two running, `scenewright doctor ACCOUNT` shows what a user would read of
    such a server (docs/mock-providers.md).

    Args:
        requests_per_minute: Most requests of one API key in any 60 s; others get status 429.
        tokens_per_minute: Most tokens of one API key in any 60 s, input and output.
        window: Seconds over which the limits are counted.
        concurrent: Most concurrent requests of one API key.
        latency: Least seconds that an answer takes.
        jitter: Latency varies uniformly by up to this many seconds.
        fault (KIND=SHARE): Share of the requests that fail, as in 500=0.02; can be given several
            times. KIND is one of 500, 503, 529, rate_limited, timeout, drop, slow_drip,
            truncated_json, invalid_json, refusal, empty, outside_options, wrong_number,
            partial_refusal, shuffled, no_probability, stream_cut, stream_stall, stream_error,
            stream_unended, keep_alive, bad_partial, no_partials.
        swap (MODEL=OTHER@N:NAME): After N requests for MODEL the model OTHER answers in its place
            and gives NAME as the served model; without :NAME it gives MODEL as before. Can be given
            several times.
        quirk (KIND): Behaviour of compatible servers that differs from the provider's:
            string_choice, loose_choice, no_tools, fenced_tokens, no_pictures or endless; can be
            given again.
        like (SERVER): Answer with the odd replies of a compatible server, one after another:
            openrouter, lmstudio, ollama, vllm, llamacpp, litellm or localai.
        shape (NAME): The one odd reply to give to every request, such as sign-in-page; a wrong NAME
            lists all of them.
        lenient: Refuse nothing that the providers refuse: any model with a name like theirs, and
            any parameter.
        model (NAME=MODEL): A further model NAME, for which the mock's MODEL answers; can be given
            again.
        tokens_per_second: Tokens that a model writes in a second, after the latency.
        seed: Seed of the faults: the same requests fail each time.
        allow_remote: Also listen on addresses that other machines can reach.
    """
    if not (allow_remote or is_loopback(host)):
        raise fail(
            f"{host} can be reached from other machines, and the mock server requires no "
            "authentication: add --allow-remote if you want that"
        )
    from scenewright.mock_providers.faults import parse_faults, parse_quirks, parse_swaps
    from scenewright.mock_providers.models import parse_models
    from scenewright.mock_providers.serving import serving
    from scenewright.mock_providers.settings import MockSettings

    names = {field.name for field in fields(MockSettings)}
    settings = MockSettings(
        **{name: value for name, value in context.params.items() if name in names},
        faults=parse_faults(fault or ()),
        swaps=parse_swaps(swap or ()),
        quirks=parse_quirks(quirk or ()),
        load_seconds=30.0 if like or shape else 0.0,
        models=parse_models(model or ()),
    )

    async def serve_until_signal() -> None:
        stop = stop_on_signal()
        async with serving(settings) as lab:
            say(text_of("mock", url=lab.url))
            sys.stdout.flush()
            await stop.wait()

    run_async(serve_until_signal())
    note("stopped.")
