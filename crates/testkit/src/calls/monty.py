"""Calls from a script in pydantic-monty: of a function of its host, and of the same MCP server beside the same client alone."""

import asyncio
import sys
import time

import pydantic_monty
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

UPSTREAM, COUNT = sys.argv[1], int(sys.argv[2])
ROUNDS = 5
SCRIPT = f"""
right = 0
for number in range({COUNT}):
    text = f'number {{number}}'
    if WAIT echo(text) == text:
        right += 1
right
"""


def middle(times):
    return sorted(times)[len(times) // 2] * 1000


def timed(work):
    started = time.perf_counter()
    value = work()
    assert value == COUNT, value
    return time.perf_counter() - started


def host():
    source = SCRIPT.replace("WAIT ", "")
    limits = {"max_suspensions": COUNT * 10}
    with pydantic_monty.Monty() as pool:
        def once():
            with pool.checkout(limits=limits) as session:
                return session.feed_run(source, external_lookup={"echo": lambda text: text})
        return middle([timed(once) for _ in range(ROUNDS)])


async def server():
    parameters = StdioServerParameters(command=UPSTREAM, args=["plain"])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
        await client.initialize()

        async def echo(text):
            return (await client.call_tool("echo", {"text": text})).content[0].text

        async with pydantic_monty.AsyncMonty() as pool:
            bare, inside = [], []
            for _ in range(ROUNDS):
                started = time.perf_counter()
                for number in range(COUNT):
                    await echo(f"number {number}")
                bare.append(time.perf_counter() - started)
                started = time.perf_counter()
                async with pool.checkout(limits={"max_suspensions": COUNT * 10}) as session:
                    value = await session.feed_run(SCRIPT.replace("WAIT", "await"), external_lookup={"echo": echo})
                assert value == COUNT, value
                inside.append(time.perf_counter() - started)
            return middle(bare), middle(inside)


print(f"{COUNT} calls of a function of the host, no server, no record | {host():.3f}")
bare, inside = asyncio.run(server())
print(f"{COUNT} calls of the echo server, no policy, no record | {inside:.3f} ({inside - bare:+.3f} above its own client, {bare:.3f})")
