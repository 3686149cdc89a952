// structuredClone for what programs pass around: plain objects, arrays, Map, Set, Date, RegExp, errors, buffers.
export default () => (value) => {
  const seen = new Map();
  const refuse = (what) => {
    const error = new Error(`${what} could not be cloned`);
    error.name = "DataCloneError";
    throw error;
  };
  const keep = (from, to) => { seen.set(from, to); return to; };
  const clone = (from) => {
    if (typeof from === "function") refuse(from.name ? `function ${from.name}` : "a function");
    if (typeof from === "symbol") refuse("a symbol");
    if (typeof from !== "object" || from === null) return from;
    if (seen.has(from)) return seen.get(from);
    if (Array.isArray(from)) {
      const to = keep(from, new Array(from.length));
      for (const key of Object.keys(from)) to[key] = clone(from[key]);
      return to;
    }
    if (from instanceof Date) return keep(from, new Date(from.getTime()));
    if (from instanceof RegExp) return keep(from, new RegExp(from.source, from.flags));
    if (from instanceof Map) {
      const to = keep(from, new Map());
      for (const [key, item] of from) to.set(clone(key), clone(item));
      return to;
    }
    if (from instanceof Set) {
      const to = keep(from, new Set());
      for (const item of from) to.add(clone(item));
      return to;
    }
    if (from instanceof ArrayBuffer) return keep(from, from.slice(0));
    if (from instanceof DataView) return keep(from, new DataView(clone(from.buffer), from.byteOffset, from.byteLength));
    if (ArrayBuffer.isView(from)) return keep(from, from.slice());
    if (from instanceof Error) {
      const kind = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }[from.name] ?? Error;
      const to = keep(from, new kind(from.message));
      Object.defineProperty(to, "stack", { value: from.stack, writable: true, configurable: true });
      if ("cause" in from) Object.defineProperty(to, "cause", { value: clone(from.cause), writable: true, configurable: true });
      return to;
    }
    for (const kind of [Number, String, Boolean, BigInt]) if (from instanceof kind) return keep(from, Object(from.valueOf()));
    for (const kind of [Promise, WeakMap, WeakSet, WeakRef]) if (from instanceof kind) refuse(`a ${kind.name}`);
    const to = keep(from, {});
    for (const key of Object.keys(from)) to[key] = clone(from[key]);
    return to;
  };
  return clone(value);
};
