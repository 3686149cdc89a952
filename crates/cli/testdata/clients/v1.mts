// The TypeScript SDK in its first version, `@modelcontextprotocol/sdk`, which speaks 2025-11-25.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { converse, type Result } from "./conversation.mts";

const door = JSON.parse(process.argv[2]);
const transport: any = door.url
    ? new StreamableHTTPClientTransport(new URL(door.url), { requestInit: { headers: door.headers } })
    : new StdioClientTransport(door);
// It tells the revision that was agreed on to its transport alone.
let protocol = "";
const told = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version: string) => {
    protocol = version;
    told?.(version);
};
const client: any = new Client({ name: "sdk-typescript-1", version: "1.0.0" });
await client.connect(transport);
await converse({
    server: () => ({ name: client.getServerVersion().name, protocol }),
    tools: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options) as Promise<Result>,
    refuses: (tool, content) => client.getToolOutputValidator(tool.name)?.(content).valid === false,
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
    read: async uri => (await client.readResource({ uri })).contents[0],
    close: () => client.close(),
});
