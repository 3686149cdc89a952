"""One conversation with Ringfence through the Python SDK: what a client does from its first word to its last.

The last line that is printed is what came of it, as JSON.
"""

import json
import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

TYPED = """
from tools import company
page = await company.list_customers(limit=3)
ids: list[str] = [customer["id"] for customer in page["items"]]
{"ids": ids, "first": (await company.get_customer(id=ids[0]))["id"]}
"""


def transport(door):
    if "url" in door:
        return streamable_http_client(door["url"], http_client=create_mcp_http_client(headers=door["headers"]))
    return stdio_client(StdioServerParameters(command=door["command"], args=door["args"], env=door["env"]))


async def thrown(act):
    """The code and the message of what is raised."""
    try:
        await act
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}
    return "nothing"


async def refuses(client, name):
    """Whether the SDK's own validator of this tool's output refuses content of the wrong shape."""
    wrong = types.CallToolResult(content=[], structured_content={"error": "no object"})
    try:
        await client.session.validate_tool_result(name, wrong)
    except RuntimeError:
        return True
    return False


def facts(result):
    content = result.structured_content
    return {
        "is_error": result.is_error is True,
        "status": content.get("status"),
        "code": (content.get("error") or {}).get("code"),
        "said": len(result.content[0].text) > 10,
    }


async def converse(client):
    async def run(progress=None, **arguments):
        return await client.call_tool("sandboxed_code_run", arguments, progress_callback=progress)

    names = [tool.name for tool in (await client.list_tools()).tools]
    search = await client.call_tool("search_tools", {"intents": ["list customers", "block a customer"]})
    described = await client.call_tool("describe_tools", {"tools": ["company.list_customers"], "language": "python"})
    typed = await run(language="python", code=TYPED)

    block = 'from tools import company\nawait company.block_customer(id="CUS-0001")\n"blocked"'
    waits = (await run(language="python", code=block)).structured_content
    print("waiting", waits["approvals"][0]["id"], flush=True)
    ended = waits
    while ended["status"] in ("running", "waiting_approval"):
        arguments = {"execution_id": waits["execution_id"], "wait": "20s"}
        ended = (await client.call_tool("wait_run", arguments)).structured_content

    said = []
    with anyio.CancelScope() as scope:
        async def heard(progress, total, message):
            said.append((progress, message))
            scope.cancel()

        await run(heard, language="shell", code="echo begun; sleep 50", session_id="work")
    after = (await run(language="shell", code="echo after", session_id="work")).structured_content

    large = await run(language="javascript", code="'x'.repeat(90000)")
    link = next(part.uri for part in large.content if part.type == "resource_link")
    whole = (await client.read_resource(link)).contents[0]
    wrong = await run(language="javascript", cod="1")
    failed = await run(language="javascript", code="throw new TypeError('no')")
    return {
        "server": {"name": client.server_info.name, "protocol": client.protocol_version},
        "names": names,
        "refused": [name for name in names if await refuses(client, name)],
        "found": [intent["slots"][0]["name"] for intent in search.structured_content["intents"]],
        "stub": "list_customers" in described.structured_content["tools"][0]["stub"],
        "typed": typed.structured_content["value"],
        "calls": [[call["tool"], call["outcome"]] for call in typed.structured_content["calls"]],
        "waited": waits["status"],
        "approved": ended["value"],
        "progress": bool(said) and said[0][0] > 0 and "begun" in said[0][1],
        "cancelled": scope.cancelled_caught,
        "after": after["stdout"],
        "session": after["session_id"],
        "cut": large.structured_content["truncated"]["value"],
        "whole": [whole.mime_type, len(json.loads(whole.text))],
        "templates": len((await client.list_resource_templates()).resource_templates),
        "wrong": facts(wrong),
        "failed": facts(failed),
        "no_tool": await thrown(client.call_tool("no_such_tool", {})),
        "no_resource": await thrown(client.read_resource(link.removesuffix("/value") + "/nothing")),
    }


async def main():
    door, mode = json.loads(sys.argv[1]), sys.argv[2]
    async with Client(transport(door), mode=mode) as client:
        done = await converse(client)
    print(json.dumps(done))


anyio.run(main)
