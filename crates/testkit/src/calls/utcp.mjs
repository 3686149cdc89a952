// Calls from a script in @utcp/code-mode: of the same MCP server, beside the MCP library alone.
import "@utcp/mcp";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { CodeModeUtcpClient } from "@utcp/code-mode";

const [, , upstream, words] = process.argv;
const count = Number(words), rounds = 5;
const say = console.log;
console.log = console.warn = console.info = () => {};
const middle = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
const timed = async (work) => {
  const started = performance.now();
  await work();
  return performance.now() - started;
};

const bare = new Client({ name: "bare", version: "1" });
await bare.connect(new StdioClientTransport({ command: upstream, args: ["plain"] }));
const client = await CodeModeUtcpClient.create();
await client.registerManual({
  name: "up",
  call_template_type: "mcp",
  config: { mcpServers: { echo: { transport: "stdio", command: upstream, args: ["plain"] } } },
});
const code = `let right = 0;
for (let number = 0; number < ${count}; number += 1) {
  const text = "number " + number;
  const answer = up.echo_echo({ text });
  if (JSON.stringify(answer).includes(text)) right += 1;
}
return right;`;
const alone = [], inside = [];
for (let round = 0; round < rounds; round += 1) {
  alone.push(await timed(async () => {
    for (let number = 0; number < count; number += 1) await bare.callTool({ name: "echo", arguments: { text: `number ${number}` } });
  }));
  inside.push(await timed(async () => {
    const { result, logs } = await client.callToolChain(code, 60_000);
    if (result !== count) throw new Error(`${JSON.stringify(result)} of ${count}: ${JSON.stringify(logs).slice(0, 500)}`);
  }));
}
const [own, all] = [middle(alone), middle(inside)];
say(`${count} calls of the echo server, no policy, no record | ${all.toFixed(3)} (+${(all - own).toFixed(3)} above its own client, ${own.toFixed(3)})`);
await bare.close();
await client.close();
process.reallyExit(0);
