"""Waiting for something outside the event loop to become true, with a deadline."""

import asyncio


async def eventually(holds, seconds=30):
    async with asyncio.timeout(seconds):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)
