"""`1+1` through the code mode of FastMCP, one after another, over stdio with its own client."""

import asyncio
import statistics
import sys
import time

from fastmcp import Client, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode


def server():
    door = FastMCP("door")

    @door.tool
    def echo(text: str) -> str:
        """Says the same."""
        return text

    door.add_transform(CodeMode())
    return door


async def measure():
    config = {"mcpServers": {"door": {"command": sys.executable, "args": [__file__, "serve"]}}}
    async with Client(config) as client:
        each, hundreds = [], []
        for number in range(3):
            begun = time.perf_counter()
            for _ in range(100):
                asked = time.perf_counter()
                answer = await client.call_tool("execute", {"code": "return 1 + 1"})
                assert "2" in str(answer.structured_content or answer.content), answer
                if number:
                    each.append(time.perf_counter() - asked)
            if number:
                hundreds.append(time.perf_counter() - begun)
        print(f"{statistics.median(each) * 1e3:.3f} ms | {statistics.median(hundreds) * 1e3:.3f} ms")


if "serve" in sys.argv:
    server().run(show_banner=False)
else:
    asyncio.run(measure())
