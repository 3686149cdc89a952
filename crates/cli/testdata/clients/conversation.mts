// One conversation with Ringfence through a TypeScript SDK: what a client does from its first word to its last.
// The last line that is printed is what came of it, as JSON.

export type Content = { type: string; text?: string; uri?: string };
export type Result = { isError?: boolean; structuredContent?: Record<string, any>; content: Content[] };
export type Options = { signal?: AbortSignal; onprogress?: (progress: { progress: number; message?: string }) => void };

export type Tool = { name: string; outputSchema?: unknown };

/** What the two SDKs have in common. */
export type Client = {
    server(): { name: string; protocol: string };
    tools(): Promise<Tool[]>;
    call(name: string, args: Record<string, unknown>, options?: Options): Promise<Result>;
    /** Whether the SDK's own validator of this tool's output refuses such content. */
    refuses(tool: Tool, content: unknown): boolean;
    templates(): Promise<string[]>;
    read(uri: string): Promise<{ mimeType?: string; text?: string }>;
    close(): Promise<void>;
};

const TYPED = `
    import { company } from "tools";
    const page = await company.list_customers({ limit: 3 });
    const ids: string[] = page.items.map(customer => customer.id);
    ({ ids, first: (await company.get_customer({ id: ids[0] })).id })
`;

/** The code and the message of what is thrown. */
async function thrown(act: Promise<unknown>): Promise<unknown> {
    return act.then(() => "nothing", error => ({ code: error.code, message: String(error.message) }));
}

export async function converse(client: Client): Promise<void> {
    const tools = await client.tools();
    const names = tools.map(tool => tool.name);
    const run = (args: Record<string, unknown>, options?: Options) => client.call("sandboxed_code_run", args, options);
    const search = await client.call("search_tools", { intents: ["list customers", "block a customer"] });
    const described = await client.call("describe_tools", { tools: ["company.list_customers"], language: "typescript" });
    const typed = await run({ language: "typescript", code: TYPED });

    const waits = await run({ language: "typescript", code: 'await tools.company.block_customer({ id: "CUS-0001" }); "blocked"' });
    console.log(`waiting ${waits.structuredContent!.approvals[0].id}`);
    let ended = waits;
    while (["running", "waiting_approval"].includes(ended.structuredContent!.status)) {
        ended = await client.call("wait_run", { execution_id: waits.structuredContent!.execution_id, wait: "20s" });
    }

    const said: { progress: number; message?: string }[] = [];
    const leave = new AbortController();
    const left = run({ language: "shell", code: "echo begun; sleep 50", session_id: "work" }, {
        signal: leave.signal,
        onprogress: progress => {
            said.push(progress);
            leave.abort(new Error("enough"));
        },
    });
    const cancelled = await left.then(() => false, () => true);
    const after = await run({ language: "shell", code: "echo after", session_id: "work" });

    const large = await run({ language: "javascript", code: "'x'.repeat(90000)" });
    const link = large.content.find(part => part.type === "resource_link")!.uri!;
    const whole = await client.read(link);
    const wrong = await run({ language: "javascript", cod: "1" });
    const failed = await run({ language: "javascript", code: "throw new TypeError('no')" });
    const facts = (result: Result) => ({
        is_error: result.isError === true,
        status: result.structuredContent!.status ?? null,
        code: result.structuredContent!.error?.code ?? null,
        said: result.content[0].text!.length > 10,
    });
    console.log(JSON.stringify({
        server: client.server(),
        names,
        refused: tools.filter(tool => client.refuses(tool, { error: "no object" })).map(tool => tool.name),
        found: search.structuredContent!.intents.map((intent: any) => intent.slots[0].name),
        stub: described.structuredContent!.tools[0].stub.includes("list_customers"),
        typed: typed.structuredContent!.value,
        calls: typed.structuredContent!.calls.map((call: any) => [call.tool, call.outcome]),
        waited: waits.structuredContent!.status,
        approved: ended.structuredContent!.value,
        progress: said.length > 0 && said[0].progress > 0 && said[0].message!.includes("begun"),
        cancelled,
        after: after.structuredContent!.stdout,
        session: after.structuredContent!.session_id,
        cut: large.structuredContent!.truncated.value,
        whole: [whole.mimeType, JSON.parse(whole.text!).length],
        templates: (await client.templates()).length,
        wrong: facts(wrong),
        failed: facts(failed),
        no_tool: await thrown(client.call("no_such_tool", {})),
        no_resource: await thrown(client.read(link.replace(/\/value$/, "/nothing"))),
    }));
    await client.close();
}
