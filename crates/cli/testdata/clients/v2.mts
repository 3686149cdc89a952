// The TypeScript SDK in its second version, `@modelcontextprotocol/client`, which finds out what the server speaks.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { converse, type Result } from "./conversation.mts";

const door = JSON.parse(process.argv[2]);
const transport = door.url
    ? new StreamableHTTPClientTransport(new URL(door.url), { requestInit: { headers: door.headers } })
    : new StdioClientTransport(door);
const client: any = new Client({ name: "sdk-typescript-2", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
await client.connect(transport);
await converse({
    server: () => ({ name: client.getServerVersion().name, protocol: client.getNegotiatedProtocolVersion() }),
    tools: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, options) as Promise<Result>,
    refuses: (tool, content) => client._compileOutputValidator(tool)?.validator?.(content).valid === false,
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
    read: async uri => (await client.readResource({ uri })).contents[0],
    close: () => client.close(),
});
