"""A call from its first attempt to its account: what is retried, paid, lost, cancelled, logged."""

from __future__ import annotations

import asyncio
import logging

import pytest

from scenewright.providers.caller import Caller
from scenewright.providers.limits import Limits
from scenewright.providers.retry import (
    CallError,
    FailedAttempt,
    PermanentError,
    RateLimited,
    Transient,
    UnusableReply,
    listen_for_retries,
)
from scenewright.providers.usage import Usage
from tests.providers.virtual import Provider, Said, get_caller, nothing_is_held, now, put, run

BUSY = Said(Transient("HTTP 503: overloaded"))
LIMITED = Said(RateLimited("HTTP 429: slow down", 20))
SAME = Said(Transient("HTTP 500: image input is not supported", lasts_if_repeated=True))
CUT = UnusableReply("cut off after 50 tokens", Usage(900, 50, 0), retry=False)
WRONG_KEY = Said(PermanentError("HTTP 401: check the API key"))
# 800 new, 200 cached and 100 output tokens of gpt-4o-mini.
USD = (800 * 0.15 + 200 * 0.075 + 100 * 0.60) / 1e6


def test_a_call_that_succeeds_says_what_it_took() -> None:
    async def main() -> None:
        caller = get_caller()
        done = await put(caller, Provider())
        assert (done.value, done.attempts, done.usage) == ("ok", 1, Usage(1000, 100, 200))
        assert done.usd == pytest.approx(USD)
        assert done.seconds == pytest.approx(0.2, abs=0.01)
        assert done.waited == pytest.approx(0, abs=0.01)
        assert (caller.totals.calls, caller.totals.answered, caller.totals.attempts) == (1, 1, 1)
        assert nothing_is_held(caller)

    run(main())


def test_transient_failures_are_tried_again_later() -> None:
    async def main() -> None:
        provider = Provider(BUSY, Said(Transient("HTTP 529", 5)), BUSY)
        caller = get_caller()
        done = await put(caller, provider)
        assert done.attempts == 4
        assert done.seconds == pytest.approx(0.2, abs=0.01)
        assert done.waited == pytest.approx(1 + 5 + 4, abs=0.01)
        assert provider.times == pytest.approx([0, 1.2, 6.4, 10.6], abs=0.01)
        assert caller.totals.seconds == pytest.approx(0.8, abs=0.01)

    run(main())


@pytest.mark.parametrize(
    ("script", "options", "attempts", "reason"),
    [
        ([WRONG_KEY], {}, 1, "check the API key"),
        ([BUSY] * 9, {"attempts": 3}, 3, r"overloaded \(after 3 attempts\)"),
        (
            [BUSY] * 9,
            {"max_wait": 4},
            3,
            r"the next attempt would be in 4 s; .*\(max_wait = 4 s\) has 1 s left",
        ),
        (
            [LIMITED] * 9,
            {"max_wait": 50, "attempts": 1},
            3,
            r"20 s; .*max_wait = 50 s\) has 10 s left",
        ),
        ([Said(RateLimited("429", 3600))], {}, 1, r"3600 s; .*max_wait = 600 s\) has 600 s left"),
        ([99.0] * 9, {"attempts": 6, "timeout": 5}, 2, r"no reply within 5 s \(after 2 att"),
        ([SAME] * 9, {}, 2, r"not supported; the same answer came twice \(after 2 attempts\)"),
        ([CUT] * 9, {}, 1, r"cut off after 50 tokens"),
        ([TimeoutError("of the SDK")], {}, 1, "TimeoutError: of the SDK"),
        ([ValueError("odd")], {}, 1, "ValueError: odd"),
    ],
)
def test_a_lost_call_says_why(
    script: list[Exception | float], options: dict[str, float], attempts: int, reason: str
) -> None:
    async def main() -> None:
        caller = get_caller(**options)
        with pytest.raises(CallError, match=reason) as caught:
            await put(caller, Provider(*script))
        assert caught.value.attempts == attempts
        assert caught.value.__cause__ is None
        assert (caller.totals.lost, caller.totals.calls) == (1, 1)
        assert nothing_is_held(caller)

    run(main())


def test_each_failed_attempt_is_told_while_its_call_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "scenewright.providers")

    async def main() -> None:
        told: list[FailedAttempt] = []
        caller = get_caller(timeout=30)
        with listen_for_retries(told.append), listen_for_retries(lambda attempt: None):
            done = await put(caller, Provider(BUSY, 99.0))
            with pytest.raises(CallError):
                await put(caller, Provider(WRONG_KEY))
        await put(caller, Provider(BUSY))
        assert done.attempts == 3
        assert [(one.number, one.reason) for one in told] == [
            (1, "HTTP 503: overloaded"), (2, "no reply within 30 s")
        ]  # fmt: skip
        assert told[1].seconds == pytest.approx(30, abs=0.01)
        assert told[1].wait == pytest.approx(2)
        assert (told[1].account, told[1].model) == (caller.account, "gpt-4o-mini")

    run(main())
    lines = [record for record in caplog.records if "attempt=" in record.getMessage()]
    # What takes long is told to whoever looks; what fails at once is not.
    assert [line.levelname for line in lines] == ["DEBUG", "WARNING", "DEBUG"]
    assert "no reply within 30 s" in lines[1].getMessage()


def test_what_was_paid_for_in_vain_is_on_the_account() -> None:
    async def main() -> None:
        vain = UnusableReply("no JSON", Usage(900, 50, 0))
        caller = get_caller()
        done = await put(caller, Provider(vain))
        assert done.attempts == 2
        assert done.usage == Usage(1900, 150, 200)
        assert done.usd == pytest.approx(USD + (900 * 0.15 + 50 * 0.60) / 1e6)
        refusal = UnusableReply("a refusal", Usage(900, 5), retry=False)
        for script in ([vain, vain, vain], [refusal]):
            with pytest.raises(CallError) as caught:
                await put(caller, Provider(*script))
            assert isinstance(caught.value.decision, PermanentError)
            assert caught.value.attempts == len(script)
        assert caller.totals.usage == Usage(1900 + 2700 + 900, 150 + 150 + 5, 200)
        assert caller.totals.usd == pytest.approx(
            done.usd + (2700 * 0.15 + 150 * 0.60) / 1e6 + (900 * 0.15 + 5 * 0.60) / 1e6
        )

    run(main())


def test_the_whole_account_pauses_as_long_as_the_provider_asks() -> None:
    async def main() -> None:
        provider = Provider(LIMITED, LIMITED, LIMITED, LIMITED)
        caller = get_caller(Limits(concurrent=4))
        dones = await asyncio.gather(*(put(caller, provider) for _ in range(12)))
        sent = provider.times
        assert sent[:4] == pytest.approx([0] * 4, abs=0.01)
        assert min(sent[4:]) >= 20.2
        assert len(sent) == 16
        # Refused calls go first again, and one burst halves once.
        assert sorted(done.attempts for done in dones) == [1] * 8 + [2] * 4
        assert [done.attempts for done in dones[:4]] == [2] * 4
        assert caller.totals.rate_limited == 4
        assert caller.limits.slots.allowed >= 2

    run(main())


def test_fewer_calls_are_under_way_after_a_refusal() -> None:
    async def main() -> None:
        provider = Provider(Said(RateLimited("429", 1)), *([0.0] * 7), takes=0.5)
        caller = get_caller(Limits(concurrent=8))
        first = [asyncio.create_task(put(caller, provider)) for _ in range(8)]
        await asyncio.sleep(1)
        assert provider.most == 8
        provider.most = 0
        await asyncio.gather(*(put(caller, provider) for _ in range(6)), *first)
        assert provider.most in (4, 5, 6)

    run(main())


def test_a_retry_that_waits_holds_no_place() -> None:
    async def main() -> None:
        provider = Provider(Said(Transient("503", 30)))
        caller = get_caller(Limits(concurrent=1))
        retried = asyncio.create_task(put(caller, provider))
        await asyncio.sleep(0.5)
        done = await put(caller, provider)
        assert done.waited < 0.01
        assert now() < 1
        assert (await retried).waited == pytest.approx(30, abs=0.01)

    run(main())


def test_time_in_line_is_no_part_of_the_timeout_or_the_patience() -> None:
    async def main() -> None:
        caller = get_caller(Limits(concurrent=1), timeout=15, max_wait=0)
        provider = Provider(takes=10)
        dones = await asyncio.gather(*(put(caller, provider) for _ in range(5)))
        assert [done.waited for done in dones] == pytest.approx([0, 10, 20, 30, 40], abs=0.01)

    run(main())


def test_calls_in_line_do_not_wait_for_a_pause_beyond_their_patience() -> None:
    async def main() -> None:
        caller = get_caller(Limits(concurrent=1))
        provider = Provider(Said(RateLimited("429: of the day", 80_000)))
        results = await asyncio.gather(
            *(put(caller, provider) for _ in range(50)), return_exceptions=True
        )
        assert all(isinstance(result, CallError) for result in results)
        assert "paused the account mine for 80000 s" in str(results[-1])
        assert len(provider.times) == 1
        assert now() < 1
        assert nothing_is_held(caller)

    run(main())


@pytest.mark.parametrize("at", [0.1, 1.2])
def test_cancelling_ends_the_attempt_or_the_wait_and_frees_everything(at: float) -> None:
    async def main() -> None:
        provider = Provider(BUSY, takes=0.5)
        caller = get_caller(Limits(concurrent=2))
        tasks = [asyncio.create_task(put(caller, provider)) for _ in range(4)]
        await asyncio.sleep(at)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        ended = [r for r in results if isinstance(r, asyncio.CancelledError)]
        assert caller.totals.cancelled == len(ended) >= 1
        assert caller.totals.answered == 4 - len(ended)
        assert provider.under_way == 0
        assert provider.cancelled == (2 if at == 0.1 else 0)
        assert nothing_is_held(caller)
        assert (await put(caller, provider)).value in ("ok", "late")

    run(main())


def test_an_outer_timeout_goes_through() -> None:
    async def main() -> None:
        caller = get_caller()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await put(caller, Provider(50.0))
        assert caller.totals.cancelled == 1
        assert nothing_is_held(caller)

    run(main())


def test_closing_ends_calls_under_way_and_refuses_others() -> None:
    async def main() -> None:
        caller = get_caller(Limits(concurrent=2))
        provider = Provider(50.0, Said(Transient("503", 100)))
        tasks = [asyncio.create_task(put(caller, provider)) for _ in range(6)]
        await asyncio.sleep(0.3)
        await asyncio.gather(caller.aclose(), caller.aclose())
        for task in tasks:
            with pytest.raises(CallError, match="the account mine was closed"):
                await task
        with pytest.raises(CallError, match="the account mine is closed") as caught:
            await put(caller, provider)
        assert caught.value.attempts == 0
        assert provider.under_way == 0
        assert caller.totals.lost == 7
        assert nothing_is_held(caller)
        await caller.aclose()

    run(main())


def test_a_broken_classifier_is_seen_and_frees_its_place() -> None:
    async def main() -> None:
        caller = get_caller(Limits(concurrent=1))

        def classify(error: Exception) -> PermanentError:
            raise KeyError("code")

        with pytest.raises(KeyError):
            await caller.call(
                Provider(BUSY).send, classify=classify, provider="p", model="m", tokens=1
            )
        assert nothing_is_held(caller)
        assert caller.totals.lost == 1

    run(main())


@pytest.mark.parametrize("options", [{"attempts": 0}, {"timeout": 0}, {"max_wait": -1}])
def test_bounds_that_let_nothing_pass_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least one attempt"):
        get_caller(**options)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name != "asyncio"]


def test_every_finished_call_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "scenewright.providers")

    async def main() -> None:
        caller = get_caller()
        await put(caller, Provider(BUSY, LIMITED), label="scene-7")
        with pytest.raises(CallError):
            await put(caller, Provider(WRONG_KEY))
        with pytest.raises(CallError):
            await put(caller, Provider(*[BUSY] * 9))
        task = asyncio.create_task(put(caller, Provider(50.0)))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})

    run(main())
    ours = [record for record in caplog.records if record.name != "asyncio"]
    assert {record.name for record in ours} == {"scenewright.providers"}
    assert [r.levelname for r in ours] == ["INFO", "ERROR", "WARNING", "INFO"]
    first, wrong, busy, cancelled = (record.getMessage() for record in ours)
    for part in (
        'account="mine"', 'provider="openai"', 'model="gpt-4o-mini"', 'label="scene-7"',
        'request="req-3"', "outcome=answered", "attempts=3", "waited=21.0", "in=1000", "out=100",
        "cached=200", "usd=0.000195", "seconds=0.6",
    ):  # fmt: skip
        assert part in first
    assert "outcome=lost" in wrong
    assert 'reason="HTTP 401: check the API key"' in wrong
    assert "attempts=6" in busy
    assert "outcome=cancelled" in cancelled


def test_no_line_holds_a_secret_or_an_image(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "scenewright.providers")
    secret, image = "sk-proj-Zq8xVt3nLw7Kp2Rb9Yc4", "iVBORw0KGgo" * 1000

    async def main() -> str:
        caller = get_caller(attempts=2)
        error = Said(Transient(f"401 for Bearer {secret}\n{{'image': '{image}'}} key={secret}"))
        with pytest.raises(CallError) as caught:
            await put(caller, Provider(error, error), label=f"{secret}\nforged line")
        return str(caught.value)

    said = run(main())
    attempt, line = lines(caplog)
    assert "attempt=1" in attempt
    assert secret not in attempt
    assert image not in attempt
    assert "\n" not in attempt
    for text in (line, said):
        assert secret not in text
        assert image[:100] not in text
        assert "\n" not in text
        assert len(text) < 1000


def test_an_unknown_price_is_told_once_and_counts_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        caller: Caller = get_caller()
        for model in ("judge-a", "judge-a", "judge-b"):
            done = await caller.call(
                Provider().send,
                classify=lambda e: PermanentError(""),
                provider="lab",
                model=model,
                tokens=1,
            )
            assert done.usd == 0
        assert caller.totals.usd == 0

    run(main())
    told = [line for line in lines(caplog) if "no price is known" in line]
    assert [line.split()[5] for line in told] == ["lab:judge-a,", "lab:judge-b,"]
