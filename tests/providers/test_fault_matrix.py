"""Every client against every fault of :mod:`tests.providers.fault_matrix`."""

from __future__ import annotations

import pytest

from tests.providers.fault_matrix import FAULTS, KEY, Client, Fault
from tests.providers.raw_server import raw_server

CASES = [
    pytest.param(client, fault, id=f"{client}-{fault.name}")
    for fault in FAULTS
    for client in fault.clients
]


@pytest.mark.parametrize(("client", "fault"), CASES)
async def test_a_fault_has_its_outcome(client: Client, fault: Fault) -> None:
    async with raw_server(lambda request, writer: behave(request, writer)) as server:
        behave = fault.serve(client, server)
        outcome = await client.call(server.url, **fault.options)
    assert outcome.answered is fault.answered, outcome.reason
    expected = fault.attempts if isinstance(fault.attempts, range) else [fault.attempts]
    assert outcome.attempts in expected, outcome.reason
    missing = [words for words in fault.words if words not in outcome.reason]
    assert not missing, outcome.reason
    assert KEY not in outcome.reason
