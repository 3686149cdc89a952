// What every program finds besides the language itself. Compiled for each engine: keep it small; what few programs need is in
// the other parts, compiled when first used.
export default (native, global) => {
  const define = (name, value) =>
    Object.defineProperty(global, name, { value, writable: true, configurable: true, enumerable: false });
  const parts = {};
  const part = (name) => (parts[name] ??= native.load(name)(native, part, console));

  let indent = "";
  native.indent = (change) => { indent = change(indent); };
  const plain = (value) => {
    switch (typeof value) {
      case "string": return value;
      case "number": return Object.is(value, -0) ? "-0" : `${value}`;
      case "boolean": case "undefined": return `${value}`;
      default: return value === null ? "null" : part("inspect").format([value]);
    }
  };
  const print = (stream, values) => {
    let text = values.length === 1 ? plain(values[0])
      : values.length === 0 ? ""
      : part("inspect").format(values);
    if (indent !== "") text = indent + text.replaceAll("\n", "\n" + indent);
    native.print(stream, text.toWellFormed() + "\n");
  };
  const out = (...values) => print(1, values);
  const err = (...values) => print(2, values);
  const console = { log: out, info: out, debug: out, warn: err, error: err };
  define("console", console);
  // Names that load their part when first looked at, and are ordinary properties from then on.
  const later = (owner, name, from, enumerable) => {
    const settle = (value) => Object.defineProperty(owner, name, { value, writable: true, configurable: true, enumerable });
    Object.defineProperty(owner, name, {
      get: () => { const value = part(from)[name]; settle(value); return value; },
      set: settle, configurable: true, enumerable,
    });
  };
  const more = "dir table trace assert group groupEnd count countReset time timeLog timeEnd";
  for (const name of more.split(" ")) later(console, name, "console", true);
  for (const name of ["WeakRef", "FinalizationRegistry"]) later(global, name, "weak", false);
  for (const name of ["structuredClone", "TextEncoder", "TextDecoder", "Intl"]) later(global, name, "web", false);
  for (const name of ["URL", "URLSearchParams"]) later(global, name, "url", false);
  later(global, "crypto", "crypto", false);
  for (const name of ["fetch", "Headers", "Response"]) later(global, name, "fetch", false);
  for (const name of ["tools", "skills", "search", "describe", "list", "ToolError"]) later(global, name, "tools", false);

  const timers = new Map();
  let last = 0;
  const timer = (repeat) => (callback, delay, ...values) => {
    if (typeof callback !== "function") throw new TypeError("a timer needs a function to call");
    const wait = Math.min(Math.max(Number(delay) || 0, repeat ? 1 : 0), 0x7fffffff);
    const id = ++last;
    timers.set(id, { callback, values, wait, repeat });
    native.start(id, wait);
    return id;
  };
  const clear = (id) => { if (timers.delete(id)) native.stop(id); };
  define("setTimeout", timer(false));
  define("setInterval", timer(true));
  define("clearTimeout", clear);
  define("clearInterval", clear);

  // The engine would drop what such a callback throws; as a promise's job it is a failure.
  const settled = Promise.resolve();
  const then = Promise.prototype.then;
  define("queueMicrotask", (callback) => {
    if (typeof callback !== "function") throw new TypeError("queueMicrotask needs a function to call");
    then.call(settled, () => { callback(); });
  });

  const name = (path) => `${path}`.toWellFormed();
  define("files", {
    read: (path, options) => part("files").read(name(path), options),
    readBytes: (path) => native.readBytes(name(path)),
    write: (path, data) => part("files").write(name(path), data),
    list: (path = ".") => native.list(name(path)),
  });

  define("emit", (what, options) => part("emit")(what, options));

  // The clock of the program is not the engine's: it can be run again. Nothing leads back to the engine's own `Date`.
  const Real = global.Date;
  const { construct } = Reflect;
  const { now } = native;
  const Date = function (...values) {
    if (new.target === undefined) return new Real(now()).toString();
    return construct(Real, values.length === 0 ? [now()] : values, new.target);
  };
  const fixed = (owner, name, value, writable, configurable = true) =>
    Object.defineProperty(owner, name, { value, writable, configurable, enumerable: false });
  fixed(Date, "name", "Date", false);
  fixed(Date, "length", Real.length, false);
  fixed(Date, "prototype", Real.prototype, false, false);
  fixed(Date, "now", now, true);
  for (const name of ["parse", "UTC"]) fixed(Date, name, Real[name], true);
  fixed(Real.prototype, "constructor", Date, true);
  define("Date", Date);
  const performance = { now: native.elapsed };
  Object.defineProperty(performance, "timeOrigin", { get: native.origin, enumerable: true, configurable: true });
  define("performance", performance);

  Object.defineProperty(Math, "random", { value: native.random, writable: true, configurable: true, enumerable: false });

  // The engine's own, beyond the language.
  delete global.DOMException;
  delete global.InternalError;

  return {
    warm: () => { for (const name of ["files", "inspect", "tools", "value"]) part(name); },
    fire: (id) => {
      const due = timers.get(id);
      if (due === undefined) return;
      if (due.repeat) native.start(id, due.wait); else timers.delete(id);
      due.callback(...due.values);
    },
    text: (object, key) => `${object[key]}`.toWellFormed(),
    describe: (value) => part("inspect").inspect(value).toWellFormed(),
    json: (value) => {
      const [text, notices] = part("value").json(value);
      for (const notice of notices) err(`notice: ${notice}`);
      return text;
    },
    answer: (number, value) => part("tools").answer(number, value),
    fail: (number, thrown) => part("tools").fail(number, thrown),
    refuse: (number, ...words) => part("tools").refuse(number, ...words),
  };
};
