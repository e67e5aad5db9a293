"""Prices: what is built in, what a file of one's own changes, what a wrong one says."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.providers.model_facts import model_facts
from scenewright.providers.usage import Price, PriceError, PriceTable, Usage
from tests.providers.virtual import REPEATABLE

USAGE = Usage(tokens_in=1_000_000, tokens_out=100_000, tokens_cached=400_000)
OWN = 'input = 1.0\noutput = 2.0\nas_of = 2026-11-01\nsource = "contract"\n'


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_cached_tokens_are_part_of_the_input_and_cheaper() -> None:
    # 600,000 at 2.50, 400,000 at 1.25 and 100,000 at 10.00 dollars a million.
    assert PriceTable.load().usd("openai", "gpt-4o", USAGE) == pytest.approx(1.5 + 0.5 + 1.0)


@pytest.mark.parametrize(
    ("model", "like"),
    [
        ("openai:gpt-4o-2024-11-20", "openai:gpt-4o"),
        ("openai:gpt-4.1-mini-2025-04-14", "openai:gpt-4.1-mini"),
        ("anthropic:claude-sonnet-4-5-20250929", "anthropic:claude-sonnet-4-6"),
        ("openai:gpt-6.1-terra-2026-11-20", "openai:gpt-6.1-terra"),
    ],
)
def test_snapshots_have_their_models_price(model: str, like: str) -> None:
    table = PriceTable.load()
    usd = table.usd(*model.split(":"), USAGE)
    assert usd is not None
    assert usd == table.usd(*like.split(":"), USAGE)


def test_the_longest_name_decides() -> None:
    table = PriceTable.load()
    first = table.price("openai", "gpt-4o-2024-05-13")
    later = table.price("openai", "gpt-4o-2024-08-06")
    opus = table.price("anthropic", "claude-opus-4-5-20251101")
    assert first is not None
    assert later is not None
    assert opus is not None
    assert (first.input, later.input, opus.input) == (5.0, 2.5, 5.0)


@pytest.mark.parametrize(
    "model",
    [
        "openai:gpt-4o-audio-preview",
        "openai:judge-a",
        "gemini:gpt-4o",
        "anthropic:claude-fable-5-2",
    ],
)
def test_an_unknown_price_is_not_guessed(model: str) -> None:
    provider, _, name = model.partition(":")
    assert PriceTable.load().usd(provider, name, USAGE) is None
    assert PriceTable.load().price(provider, name) is None


def test_every_built_in_price_is_dated_and_has_a_source() -> None:
    table = PriceTable.load()
    names = model_facts().rows("price")
    assert len(names) > 60
    for name in names:
        provider, _, model = name.partition(":")
        price = table.price(provider, model)
        assert price is not None
        assert len(price.source) > 10
        assert date(2026, 9, 1) <= price.as_of <= model_facts().as_of
        assert price.cached is None or price.cached < price.input
        if provider == "anthropic":
            # What is kept for five minutes costs a quarter more to write.
            written = price.usd(Usage(1000, 0, tokens_written=1000))
            assert written == pytest.approx(1.25 * price.usd(Usage(1000, 0)))
        if provider == "decision":
            assert price.output == 0.0
        elif price.cached is not None:
            assert price.input < price.output


def test_a_file_of_ones_own_goes_first_and_the_last_one_before_all(tmp_path: Path) -> None:
    one = written(tmp_path / "one.toml", f'["openai:*"]\n{OWN}')
    two = written(tmp_path / "two.toml", f'["openai:gpt-4o"]\n{OWN.replace("2.0", "3.0")}')
    table = PriceTable.load(one, two)
    assert table.usd("openai", "gpt-4o", USAGE) == pytest.approx(1.3)
    assert table.usd("openai", "gpt-4.1", USAGE) == pytest.approx(1.2)
    assert table.usd("openai", "our-own", USAGE) == pytest.approx(1.2)
    own = table.price("openai", "our-own")
    assert own is not None
    assert own.as_of == date(2026, 11, 1)
    assert table.usd("gemini", "gemini-2.5-pro", USAGE) == PriceTable.load().usd(
        "gemini", "gemini-2.5-pro", USAGE
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input = \n", "is not valid TOML"),
        (f'["gpt-4o"]\n{OWN}', "gpt-4o.*wrong form"),
        (f'["openai:*-mini"]\n{OWN}', r"openai:\*-mini.*wrong form"),
        ('"openai:gpt-4o" = 2.5\n', "openai:gpt-4o: must be an object"),
        (f'["openai:gpt-4o"]\n{OWN}cache = 1.0\n', "gpt-4o.*cache"),
        (f'["openai:gpt-4o"]\n{OWN.replace("1.0", "-1.0")}', "gpt-4o.*input"),
        (f'["openai:gpt-4o"]\n{OWN.replace("1.0", "nan")}', "gpt-4o.*input"),
        (f'["openai:gpt-4o"]\n{OWN.replace("2.0", "true")}', "gpt-4o.*output"),
        ('["openai:gpt-4o"]\ninput = 1.0\noutput = 1.0\n', "gpt-4o.*as_of"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_key(
    tmp_path: Path, text: str, message: str
) -> None:
    path = written(tmp_path / "mine.toml", text)
    with pytest.raises(PriceError, match=rf"mine\.toml.*{message}"):
        PriceTable.load(path)


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match=r"none\.toml cannot be read"):
        PriceTable.load(tmp_path / "none.toml")


@REPEATABLE
@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_price_is_never_negative_and_a_cache_never_dearer(
    tokens_in: int, tokens_out: int, cached: int
) -> None:
    price = Price(input=2.0, cached=0.5, output=8.0, as_of=date(2026, 1, 1))
    usd = price.usd(Usage(tokens_in, tokens_out, cached))
    assert 0 <= usd <= price.usd(Usage(tokens_in, tokens_out, 0))


def test_tokens_of_pictures_have_their_own_price() -> None:
    price = Price(
        input=5.0, image_input=8.0, output=10.0, image_output=32.0, as_of=date(2026, 1, 1)
    )
    usage = Usage(1_000_000, 1_000_000, image_tokens_in=400_000, image_tokens_out=900_000)
    assert price.usd(usage) == pytest.approx(0.6 * 5 + 0.4 * 8 + 0.1 * 10 + 0.9 * 32)
    # Without a price of their own they cost what text does; a count that cannot be is bounded.
    plain = Price(input=5.0, output=10.0, as_of=date(2026, 1, 1))
    assert plain.usd(usage) == pytest.approx(15.0)
    assert price.usd(Usage(10, 10, 10, 0, 99, 99)) == pytest.approx((10 * 5 + 10 * 32) / 1e6)


def test_pictures_may_have_a_price_each(tmp_path: Path) -> None:
    text = '["painter:*"]\nimage = 0.04\nas_of = 2026-11-01\n'
    table = PriceTable.load(written(tmp_path / "mine.toml", text))
    assert table.usd("painter", "any", Usage(500, 500, images=3)) == pytest.approx(0.12)


def test_usages_add_up_with_their_pictures() -> None:
    one = Usage(1, 2, 3, 4, 5, 6)
    assert one + one == Usage(2, 4, 6, 8, 10, 12)
