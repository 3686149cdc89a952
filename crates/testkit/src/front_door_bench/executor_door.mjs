// `1+1` through the MCP server of `executor`, one after another, over stdio.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const home = mkdtempSync(join(tmpdir(), "executor-"));
const machine = `${process.platform}-${process.arch}`;
const server = spawn(join(import.meta.dirname, `node_modules/executor-${machine}/bin/executor`), ["mcp"], {
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
const middle = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
const me = { name: "bench", version: "1" };
await request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: me });
server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
const each = [], hundreds = [];
for (let round = 0; round < 3; round += 1) {
  const begun = performance.now();
  for (let call = 0; call < 100; call += 1) {
    const start = performance.now();
    const answer = await request("tools/call", { name: "execute", arguments: { code: "return 1+1" } });
    if (answer.error || answer.result.isError || !JSON.stringify(answer.result).includes("2")) throw new Error(JSON.stringify(answer));
    if (round > 0) each.push(performance.now() - start);
  }
  if (round > 0) hundreds.push(performance.now() - begun);
}
console.log(`${middle(each).toFixed(3)} ms | ${middle(hundreds).toFixed(3)} ms`);
server.kill("SIGKILL");
rmSync(home, { recursive: true, force: true });
process.exit(0);
