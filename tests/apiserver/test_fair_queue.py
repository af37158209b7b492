"""Seats are shared between users, whatever one of them does."""

import asyncio
import itertools

import pytest

from pykueue.api.errors import ApiError
from pykueue.apiserver import fair_queue
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.fair_queue import FairQueue
from pykueue.apiserver.http.priority_levels import PriorityLevels, Seat, queue_of


def entered(queue, user):
    count = 0
    while queue.try_enter(user):
        count += 1
    return count


def test_one_user_takes_at_most_half_of_the_seats():
    queue = FairQueue(64, 10)
    assert entered(queue, "flood") == 32
    assert queue.try_enter("other")


async def test_somebody_new_gets_the_next_free_seat_although_many_users_flood():
    queue = FairQueue(64, 100)
    for number in range(20):
        entered(queue, f"flood-{number}")
    order: list[str] = []
    tasks = [asyncio.create_task(waiting(queue, user, order)) for user in [*["flood-0"] * 50, "other"]]
    await asyncio.sleep(0)
    queue.leave("flood-1")
    await asyncio.sleep(0)
    queue.leave("flood-0")
    await asyncio.sleep(0)
    assert order[0] == "other"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def waiting(queue, user, order):
    await queue.enter(user)
    order.append(user)
    queue.leave(user)


async def test_free_seats_are_given_to_the_users_in_turn():
    queue = FairQueue(1, 10)
    await queue.enter("first")
    order: list[str] = []
    tasks = [asyncio.create_task(waiting(queue, user, order)) for user in ("a", "a", "a", "b", "c")]
    await asyncio.sleep(0)
    queue.leave("first")
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c", "a", "a"]


async def test_requests_of_a_flood_start_one_by_one_and_another_user_comes_next():
    queue = FairQueue(64, 100, per_turn=1)
    order: list[str] = []
    flood = [asyncio.create_task(waiting(queue, "flood", order)) for _ in range(30)]
    await asyncio.sleep(0)
    assert order == ["flood"], "one in a turn"
    other = asyncio.create_task(waiting(queue, "other", order))
    await other
    assert order.index("other") <= 3
    await asyncio.gather(*flood)
    assert order.count("flood") == 30
    assert entered(queue, "flood") == 1


async def test_a_full_queue_refuses_with_a_hint_when_to_retry():
    queue = FairQueue(1, 1)
    await queue.enter("a")
    task = asyncio.create_task(queue.enter("a"))
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refused:
        await queue.enter("a")
    assert (refused.value.code, refused.value.details) == (429, {"retryAfterSeconds": 1})
    queue.leave("a")
    await task


async def test_who_waits_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(fair_queue, "LONGEST_WAIT_SECONDS", 0.01)
    queue = FairQueue(1, 1)
    await queue.enter("a")
    with pytest.raises(ApiError):
        await queue.enter("b")
    queue.leave("a")
    assert queue.try_enter("c")


@pytest.mark.parametrize("is_served_first", [True, False])
async def test_a_cancelled_request_gives_back_its_place(is_served_first):
    queue = FairQueue(1, 1)
    await queue.enter("a")
    task = asyncio.create_task(queue.enter("b"))
    await asyncio.sleep(0)
    if is_served_first:
        queue.leave("a")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if not is_served_first:
        queue.leave("a")
    assert queue.try_enter("c")


async def test_a_seat_is_left_once():
    queue = FairQueue(2, 0)
    seat = Seat(queue, "a")
    async with seat:
        seat.leave()
    assert (entered(queue, "b"), entered(queue, "c")) == (1, 1)


ADMIN = UserInfo(name="admin", groups=("system:masters",))
JANE = UserInfo(name="jane", groups=("system:authenticated",))


async def request(level, method, user, methods):
    async with level.seat(method, user.name):
        methods.append(method)


async def take_all_seats(level, method, user):
    """Seats for requests of this method, as many as the user gets without waiting."""
    seats = []
    while True:
        seat = level.seat(method, user.name)
        waiting_for_seat = asyncio.create_task(seat.take())
        await asyncio.sleep(0)
        if not waiting_for_seat.done():
            waiting_for_seat.cancel()
            await asyncio.gather(waiting_for_seat, return_exceptions=True)
            return seats
        seats.append(seat)


async def test_no_request_of_an_administrator_is_refused(monkeypatch):
    monkeypatch.setattr(fair_queue, "LONGEST_WAIT_SECONDS", 0.001)
    level = PriorityLevels().of(ADMIN)
    seats = await take_all_seats(level, "POST", ADMIN)
    methods: list[str] = []
    tasks = [asyncio.create_task(request(level, "POST", ADMIN, methods)) for _ in range(3000)]
    await asyncio.sleep(0.01)
    for seat in seats:
        seat.leave()
    await asyncio.gather(*tasks)
    assert len(methods) == 3000


@pytest.mark.parametrize("user", [ADMIN, JANE])
async def test_a_read_does_not_wait_for_the_writes_of_its_user(user):
    level = PriorityLevels().of(user)
    await take_all_seats(level, "POST", user)
    assert await take_all_seats(level, "GET", user)


async def test_a_patch_of_an_administrator_does_not_wait_for_creations():
    level = PriorityLevels().of(ADMIN)
    await take_all_seats(level, "POST", ADMIN)
    assert await take_all_seats(level, "PATCH", ADMIN)


async def test_few_writes_of_administrators_start_in_one_turn():
    level = PriorityLevels().of(ADMIN)
    methods: list[str] = []
    tasks = [asyncio.create_task(request(level, "POST", ADMIN, methods)) for _ in range(100)]
    tasks += [asyncio.create_task(request(level, "PATCH", ADMIN, methods)) for _ in range(4)]
    started = []
    while len(methods) < len(tasks):
        await asyncio.sleep(0)
        started.append(len(methods))
    assert max(after - before for before, after in itertools.pairwise([0, *started])) <= 8
    assert methods.index("PATCH") < 10
    await asyncio.gather(*tasks)


async def test_methods_of_another_user_share_one_queue():
    level = PriorityLevels().of(JANE)
    await take_all_seats(level, "POST", JANE)
    assert not await take_all_seats(level, "PATCH", JANE)


def test_administrators_and_system_components_have_seats_of_their_own():
    levels = PriorityLevels()
    controller = UserInfo(name="system:serviceaccount:kueue-system:kueue", groups=())
    assert levels.of(ADMIN) is levels.exempt
    assert levels.of(controller) is levels.system
    assert levels.of(JANE) is levels.workload


def test_service_accounts_of_a_namespace_share_a_queue():
    accounts = [UserInfo(name=f"system:serviceaccount:ml:{number}", groups=()) for number in range(3)]
    assert {queue_of(account) for account in accounts} == {"system:serviceaccount:ml"}
