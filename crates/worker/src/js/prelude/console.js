// The console's less common methods.
export default (native, part, { log, error }) => {
  const counts = new Map();
  const clocks = new Map();
  const elapsed = (label, rest) => {
    if (!clocks.has(label)) return error(`Warning: no such label '${label}' for console.time()`);
    log(`${label}: ${(performance.now() - clocks.get(label)).toFixed(3)}ms`, ...rest);
  };
  return {
    dir: (value) => log(typeof value === "string" ? part("inspect").inspect(value) : value),
    table: (value) => log(part("inspect").table(value)),
    trace: (...values) => error("Trace:", ...values, "\n" + native.trace(new Error().stack).trimEnd()),
    assert: (condition, ...values) => { if (!condition) error("Assertion failed", ...values); },
    group: (...values) => { if (values.length > 0) log(...values); native.indent((indent) => indent + "  "); },
    groupEnd: () => { native.indent((indent) => indent.slice(2)); },
    count: (label = "default") => { counts.set(label, (counts.get(label) ?? 0) + 1); log(`${label}: ${counts.get(label)}`); },
    countReset: (label = "default") => { counts.delete(label); },
    time: (label = "default") => { clocks.set(label, performance.now()); },
    timeLog: (label = "default", ...rest) => elapsed(label, rest),
    timeEnd: (label = "default") => { elapsed(label, []); clocks.delete(label); },
  };
};
