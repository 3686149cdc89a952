// `1+1` in @utcp/code-mode, one after another, by its own library: no protocol between.
import { CodeModeUtcpClient } from "@utcp/code-mode";

const say = console.log;
console.log = console.warn = console.info = () => {};
const middle = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
const client = await CodeModeUtcpClient.create();
const each = [], hundreds = [];
for (let round = 0; round < 4; round += 1) {
  const begun = performance.now();
  for (let call = 0; call < 100; call += 1) {
    const asked = performance.now();
    const { result } = await client.callToolChain("return 1+1", 10_000);
    if (result !== 2) throw new Error(`1+1 is ${JSON.stringify(result)}`);
    if (round > 0) each.push(performance.now() - asked);
  }
  if (round > 0) hundreds.push(performance.now() - begun);
}
say(`${middle(each).toFixed(3)} ms | ${middle(hundreds).toFixed(3)} ms`);
process.reallyExit(0);
