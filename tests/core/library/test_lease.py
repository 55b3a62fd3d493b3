"""The right to a turn: one has it, and nobody has it for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mindstone_tui.core.errors import SessionBusy
from mindstone_tui.core.library.lease import Lease
from mindstone_tui.core.paths import Places, SessionKey


@pytest.fixture
def leases(home: Path) -> tuple[Lease, Lease]:
    places = Places.resolve({"MINDSTONE_HOME": str(home)}).session(SessionKey.parse("main"))
    places.folder.mkdir(parents=True)
    return Lease(places), Lease(places)


async def test_whoever_had_it_lets_those_who_wait_go_first(leases: tuple[Lease, Lease]) -> None:
    greedy, waiting = leases
    assert greedy.try_take()
    knocked = asyncio.Event()
    patient = asyncio.create_task(waiting.take(wait=True, on_wait=knocked.set))
    await knocked.wait()
    greedy.give_back()
    assert not greedy.try_take(), "it would have had it again before anybody else"
    await patient
    assert waiting.held
    waiting.give_back()
    assert greedy.try_take()


async def test_a_place_in_the_queue_goes_with_the_one_who_left(leases: tuple[Lease, Lease]) -> None:
    first, second = leases
    assert first.try_take()
    knocked = asyncio.Event()
    leaving = asyncio.create_task(second.take(wait=True, on_wait=knocked.set))
    await knocked.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    first.give_back()
    assert first.try_take()
    with pytest.raises(SessionBusy):
        await second.take(wait=False, on_wait=lambda: None)
    first.give_back()
    assert second.try_take()
