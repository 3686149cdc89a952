// Calls from a script in executor: of the same MCP server, beside the MCP library alone. Its own door is MCP over stdio.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [, , upstream, words] = process.argv;
const count = Number(words), rounds = 3;
const middle = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
const home = mkdtempSync(join(tmpdir(), "executor-"));
const machine = `${process.platform}-${process.arch}`;
const server = spawn(join(import.meta.dirname, `node_modules/executor-${machine}/bin/executor`), ["mcp", "--elicitation-mode", "model"], {
  env: { PATH: process.env.PATH, HOME: home, EXECUTOR_HOME: home },
  stdio: ["pipe", "pipe", "ignore"],
});
const waiting = new Map();
createInterface({ input: server.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  waiting.get(message.id)?.(message);
});
let asked = 0;
const request = (method, params) => new Promise((done) => {
  asked += 1;
  waiting.set(asked, done);
  server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: asked, method, params })}\n`);
});
const call = async (name, given) => {
  const { result } = await request("tools/call", { name, arguments: given });
  return result?.structuredContent ?? {};
};
// What it asks a person before it adds a server is answered with yes.
const execute = async (code) => {
  let said = await call("execute", { code });
  while (said.status === "waiting_for_interaction") said = await call("resume", { executionId: said.executionId, action: "accept" });
  if (said.status !== "completed") throw new Error(`executor: ${JSON.stringify(said).slice(0, 500)}`);
  return said.result;
};
const set = async (code) => {
  const said = await execute(`return await ${code}`);
  if (!said.ok) throw new Error(`executor: ${JSON.stringify(said).slice(0, 500)}`);
};

await request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "bench", version: "1" } });
server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
const entry = { transport: "stdio", name: "up", slug: "up", command: upstream, args: ["plain"] };
await set(`tools.executor.mcp.addServer(${JSON.stringify(entry)})`);
// A connection names a credential, even where the server takes none.
const connection = { owner: "user", name: "me", integration: "up", template: "none", from: { provider: "file", id: "none" } };
await set(`tools.executor.coreTools.connections.create(${JSON.stringify(connection)})`);
const bare = new Client({ name: "bare", version: "1" });
await bare.connect(new StdioClientTransport({ command: upstream, args: ["plain"] }));
const code = `let right = 0, wrong;
for (let number = 0; number < ${count}; number += 1) {
  const text = "number " + number;
  const answer = await tools.up.user.me.echo({ text });
  if (answer.ok && JSON.stringify(answer.data).includes(text)) right += 1; else wrong = answer;
}
return { right, wrong };`;
const alone = [], inside = [];
for (let round = 0; round < rounds; round += 1) {
  let started = performance.now();
  for (let number = 0; number < count; number += 1) await bare.callTool({ name: "echo", arguments: { text: `number ${number}` } });
  alone.push(performance.now() - started);
  started = performance.now();
  const { right, wrong } = await execute(code);
  if (right !== count) throw new Error(`${right} of ${count}: ${JSON.stringify(wrong)}`);
  inside.push(performance.now() - started);
}
const [own, all] = [middle(alone), middle(inside)];
console.log(`${count} calls of the echo server, its own policy | ${all.toFixed(3)} (+${(all - own).toFixed(3)} above the MCP library alone, ${own.toFixed(3)})`);
await bare.close();
server.kill("SIGKILL");
rmSync(home, { recursive: true, force: true });
process.exit(0);
