// Tools by name, and the questions about them. Nothing is known here of what exists: every call is asked and answered outside.
export default (native) => {
  class ToolError extends Error {
    constructor(message, { code = "call.failed", rule = null, hint = null, retryAfterMs = null, tool = null } = {}) {
      super(message);
      this.code = code;
      this.rule = rule;
      this.hint = hint;
      this.retryAfterMs = retryAfterMs;
      this.tool = tool;
    }
    toJSON() {
      const { name, code, message, rule, hint, tool, retryAfterMs } = this;
      return { type: name, code, message, rule, hint, tool, retryAfterMs };
    }
  }
  Object.defineProperty(ToolError.prototype, "name", { value: "ToolError", writable: true, configurable: true });

  const { stringify } = JSON;
  const plain = (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    const from = Object.getPrototypeOf(value);
    return from === null || from === Object.prototype;
  };
  const kind = (value) =>
    value === null ? "null" : Array.isArray(value) ? "a list"
      : typeof value === "object" ? `a ${value.constructor?.name ?? "object"}` : `a ${typeof value}`;

  const waiting = new Map();
  const start = (ask, server, tool, label, args) =>
    new Promise((resolve, reject) => {
      const number = native.call(ask, server, tool, args === undefined ? "{}" : stringify(args));
      if (number > 0) waiting.set(number, { resolve, reject, label, at: new Error() });
      else if (number === 0) reject(new ToolError(`there is no tool \`${label.slice(0, 100)}…\``, { code: "tool.unknown", tool: label }));
      else reject(new ToolError(`the arguments of \`${label}\` are longer than 16 MiB`, { code: "call.too_large", tool: label }));
    });
  const take = (number) => {
    const call = waiting.get(number);
    waiting.delete(number);
    return call;
  };

  // What JavaScript itself looks for on any object: none of these is a name of the outside.
  const quiet = new Set(["then", "toJSON", "constructor", "prototype", "__proto__"]);
  const namespace = (label, make) => {
    const known = new Map();
    return new Proxy(Object.freeze(Object.create(null)), {
      get: (_, name) => {
        if (typeof name === "symbol") return name === Symbol.toStringTag ? label : undefined;
        if (name === "toString") return () => `[${label}]`;
        if (quiet.has(name)) return undefined;
        let found = known.get(name);
        if (found === undefined) known.set(name, (found = make(name)));
        return found;
      },
    });
  };
  const toolOf = (server, tool, path) => {
    const label = `${server}.${tool}`;
    const call = (args, ...more) => {
      if ((args === undefined || plain(args)) && more.length === 0) return start("tool", server, tool, label, args);
      const given = more.length > 0 ? `${more.length + 1} arguments` : kind(args);
      return Promise.reject(new TypeError(`${path} takes one object with named arguments, not ${given}`));
    };
    Object.defineProperty(call, "name", { value: label });
    const attempt = (...args) => call(...args).then((data) => ({ ok: true, data }), (error) => {
      if (error instanceof ToolError) return { ok: false, error };
      throw error;
    });
    Object.defineProperty(call, "try", { value: attempt });
    return call;
  };
  const tools = namespace("tools", (server) =>
    namespace(`tools.${server}`, (tool) => toolOf(server, tool, `tools.${server}.${tool}`)));
  // A server of a name that no other server has.
  const skills = namespace("skills", (skill) => toolOf("skills", skill, `skills.${skill}`));

  // A question may be one word or a list with further options, or all of it as one object.
  const question = (ask, one, many) => (subject, options) => {
    const given = typeof subject === "string" ? one(subject)
      : Array.isArray(subject) && many !== undefined ? many(subject)
      : subject === undefined ? {} : subject;
    if (!plain(given)) return Promise.reject(new TypeError(`${ask} takes a string or an object, not ${kind(subject)}`));
    return start(ask, "", "", ask, { ...given, ...options });
  };

  return {
    tools, skills, ToolError, start,
    search: question("search", (query) => ({ query }), (intents) => ({ intents })),
    describe: question("describe", (tool) => ({ tools: [tool] }), (tools) => ({ tools })),
    list: question("list", (server) => ({ server })),
    answer: (number, value) => take(number)?.resolve(value),
    fail: (number, thrown) => take(number)?.reject(thrown),
    refuse: (number, message, code, rule, hint, retryAfterMs) => {
      const call = take(number);
      if (call === undefined) return;
      const error = new ToolError(message, { code, rule, hint, retryAfterMs, tool: call.label });
      Object.defineProperty(error, "call", { value: number });
      Object.defineProperty(error, "stack", { value: call.at.stack, writable: true, configurable: true });
      call.reject(error);
    },
  };
};
