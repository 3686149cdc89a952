//! Programs that use everything the sandbox provides pass the checkers; programs that use anything else do not.

use std::fs;

use ringfence_catalog::{StubLanguage, Tool};
use serde_json::json;

use crate::programs::{catalog, write_stubs};

const SCRIPT: &str = r#"
import { s, search, describe, list, ToolError, tools as all } from "tools";
import every from "tools";
const tried = await s.t0.try({ a: 1 });
if (tried.ok) console.log(tried.data.a?.toFixed(2)); else console.error(tried.error.code, tried.error.hint);
try { await tools.s.t0({ a: 2 }); await all.s.t0(); await every.s.t0({}); }
catch (error) { if (error instanceof ToolError) console.table([error.rule, error.tool, error.retryAfterMs?.toFixed(0)]); else throw error; }
new ToolError("mine", { code: "own", retryAfterMs: 5 });
emit("a.txt"); emit("a.txt", { type: "text/plain" }); emit({ a: 1 }, { name: "a.json" }); emit(new Uint8Array(2), { name: "b", type: "x/y" });
await search("open an issue"); await search(["a", "b"], { detail: "names", limit: 3 }); await describe("s.t0"); await list("s");
const timer = setTimeout((word: string) => console.log(word), 5, "x"); clearTimeout(timer);
queueMicrotask(() => {}); clearInterval(setInterval(() => {}, 10));
const page = await fetch("https://example.com", { method: "POST", headers: { a: "b" }, body: "x", redirect: "manual" });
console.log(page.ok, page.headers.get("a"), await page.text(), (await page.json()).x, (await page.bytes()).length, (await page.arrayBuffer()).byteLength);
files.write("a.txt", new TextEncoder().encode(files.list().join()));
const text: string = new TextDecoder().decode(files.readBytes("a.txt")) + files.read("a.txt", "hex") + args.join(" ");
console.time("x"); console.group(); console.groupEnd(); console.assert(performance.now() > 0, "late"); console.timeEnd("x");
export default structuredClone({ text });
"#;

const REFUSED: &str = r#"
await fetch("https://example.com", { signal: 1 });
await s.t0({ a: "x" });
await tools.s.t0.try({ b: 1 });
process.exit(1);
emit({ a: 1 });
emit("a.txt", { mime: "text/plain" });
export default tools.nowhere;
"#;

const PYTHON: &str = r#"
import asyncio
from tools import s, search as find, ToolError as Refused

async def main() -> None:
    both = await asyncio.gather(s.t0(a=1), tools.s.t0())
    print(both[0].get("a"), args[0], files.read("a.txt"), files.list())
    files.write("b.txt", b"x")
    emit("b.txt")
    emit("b.txt", type="text/plain")
    emit({"a": 1}, name="a.json")
    emit(b"x", name="b", type="x/y")
    try:
        await search(["a", "b"], detail="names", limit=3)
        await find("x")
        await describe("s.t0", "s.t1", detail="full")
        await list_tools("s")
    except ToolError as error:
        print(error.code, error.rule, error.hint, error.tool, (error.retry_after_ms or 0) + 1)
        raise ToolError("mine", "own", retry_after_ms=5)
    except Refused:
        pass
"#;

const WRONG: &str = r#"
from tools import s
async def main() -> None:
    await s.t0(a="x")
    await s.t1()
    await tools.nowhere.x()
    files.remove("a")
    emit({"a": 1})
    emit("a.txt", mime="text/plain")
"#;

#[test]
fn programs_know_what_a_sandbox_gives_them() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "number" } } });
    let catalog = catalog(&[schema]);
    let tools: Vec<&Tool> = catalog.tools().iter().collect();
    let Some(compilers) = crate::compilers() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    write_stubs(place, &tools, StubLanguage::TypeScript);
    write_stubs(place, &tools, StubLanguage::Python);
    for (name, text) in [
        ("good.ts", SCRIPT),
        ("bad.ts", REFUSED),
        ("good.py", PYTHON),
        ("bad.py", WRONG),
    ] {
        fs::write(place.join(name), text.trim_start()).expect("a program is written");
    }
    let script = compilers.typescript(place, &["ringfence.d.ts", "tools.d.ts", "good.ts", "bad.ts"]);
    let lines: Vec<(&str, usize)> = script.lines.iter().map(|(file, line)| (file.as_str(), *line)).collect();
    assert_eq!(
        lines,
        [
            ("bad.ts", 1),
            ("bad.ts", 2),
            ("bad.ts", 3),
            ("bad.ts", 4),
            ("bad.ts", 5),
            ("bad.ts", 6),
            ("bad.ts", 7)
        ],
        "{}",
        script.output
    );
    let snake = compilers.python(place, &["."]);
    let lines: Vec<(&str, usize)> = snake.lines.iter().map(|(file, line)| (file.as_str(), *line)).collect();
    assert_eq!(
        lines,
        [
            ("bad.py", 3),
            ("bad.py", 4),
            ("bad.py", 5),
            ("bad.py", 6),
            ("bad.py", 7),
            ("bad.py", 8)
        ],
        "{}",
        snake.output
    );
}

#[test]
fn a_program_without_tools_is_checked_too() {
    let Some(compilers) = crate::compilers() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    write_stubs(folder.path(), &[], StubLanguage::TypeScript);
    write_stubs(folder.path(), &[], StubLanguage::Python);
    fs::write(folder.path().join("a.ts"), "export default args.length;\n").expect("a program is written");
    let script = compilers.typescript(folder.path(), &["ringfence.d.ts", "tools.d.ts", "a.ts"]);
    assert!(script.lines.is_empty(), "{}", script.output);
    let snake = compilers.python(folder.path(), &["."]);
    assert!(snake.lines.is_empty(), "{}", snake.output);
}
