// Calls from a script in @cloudflare/codemode: of a function in its own worker, for workerd starts no programs and so reaches no
// server over stdio. Timed from outside: clocks inside a worker stand still while it computes.
import { build } from "esbuild";
import { Miniflare } from "miniflare";

const [, , , words] = process.argv;
const count = Number(words), rounds = 5;
const middle = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
const code = `async () => {
  let right = 0;
  for (let number = 0; number < ${count}; number += 1) {
    const text = "number " + number;
    if (await codemode.echo({ text }) === text) right += 1;
  }
  return right;
}`;
const worker = `import { DynamicWorkerExecutor } from "@cloudflare/codemode";
export default {
  async fetch(request, { LOADER }) {
    const executor = new DynamicWorkerExecutor({ loader: LOADER });
    return Response.json(await executor.execute(await request.text(), [{ name: "codemode", fns: { echo: async ({ text }) => text } }]));
  },
};`;
const { outputFiles } = await build({
  stdin: { contents: worker, resolveDir: import.meta.dirname },
  bundle: true, write: false, format: "esm", target: "es2022", external: ["cloudflare:*", "node:*"], logLevel: "error",
});
const miniflare = new Miniflare({
  modules: true, script: outputFiles[0].text, workerLoaders: { LOADER: {} }, compatibilityDate: "2026-07-01",
  compatibilityFlags: ["nodejs_compat"],
});
const times = [];
for (let round = 0; round <= rounds; round += 1) {
  const started = performance.now();
  const answer = await miniflare.dispatchFetch("http://worker/", { method: "POST", body: code });
  const { result, error } = await answer.json();
  if (result !== count) throw new Error(`${JSON.stringify(result)} of ${count}: ${error}`);
  // The first round starts the worker.
  if (round > 0) times.push(performance.now() - started);
}
console.log(`${count} calls of a function in its own worker, no server, no record | ${middle(times).toFixed(3)}`);
await miniflare.dispose();
process.exit(0);
