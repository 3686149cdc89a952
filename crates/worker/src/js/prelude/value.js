// A program's value as JSON. What JSON has no form for takes the form that its kind usually has there, and anything else the text
// that the console would show, of which the program's author is told.
export default (native, part) => {
  const NOTICES = 5, DEPTH = 100;
  const CIRCULAR = "[circular]", TOO_DEEP = "[nested too deeply]";
  const { stringify } = JSON;
  const { isArray } = Array;
  const { getPrototypeOf, keys, hasOwn } = Object;

  const advice = [
    [Promise, "a promise", "await it: `await Promise.all(list)` for a list of them"],
    [Map, "a Map", "convert it: `Object.fromEntries(map)` or `[...map]`"],
    [Set, "a Set", "convert it: `[...set]`"],
    [Error, "an Error", "convert it: `String(error)` or `error.message`"],
    [RegExp, "a RegExp", "convert it: `String(regexp)`"],
    [ArrayBuffer, "an ArrayBuffer", "convert it: `[...new Uint8Array(buffer)]`, or write it to a file"],
    [WeakMap, "a WeakMap", "leave it out"],
    [WeakSet, "a WeakSet", "leave it out"],
  ];
  const isIterator = (item) => typeof item.next === "function" && typeof item[Symbol.iterator] === "function";
  // What an item is that JSON would drop, empty or refuse, and what to do about it; undefined for what it takes whole.
  const objectionTo = (item) => {
    switch (typeof item) {
      case "function": return ["a function", "call it, or leave it out"];
      case "symbol": return ["a symbol", "convert it: `symbol.description`"];
      case "bigint": return ["a BigInt", "convert it: `Number(n)` or `String(n)`"];
      case "object": break;
      default: return undefined;
    }
    if (item === null || isArray(item) || getPrototypeOf(item) === Object.prototype) return undefined;
    for (const [kind, what, hint] of advice) if (item instanceof kind) return [what, hint];
    if (ArrayBuffer.isView(item)) return ["binary data", "convert it: `[...bytes]`, or write it to a file"];
    if (item instanceof BigInt) return objectionTo(item.valueOf());
    if (isIterator(item)) return ["an iterator", "convert it: `[...iterator]`"];
    return undefined;
  };
  // Near its limit the engine may have no memory left for an error object and throw null.
  const isExhausted = (failure) => failure === null || failure?.name === "InternalError";
  const step = (key) => (/^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${stringify(key)}]`);
  const place = (path) => (path === "" ? "the value" : `value${path}`);

  // Where a value holds what JSON has no form for; undefined for one that JSON takes whole. There must be no circles in it.
  const search = (item) => {
    if (typeof item === "object" && item !== null && typeof item.toJSON === "function")
      return item instanceof Date ? undefined : search(item.toJSON(""));
    const found = objectionTo(item);
    if (found !== undefined) return { what: found[0], hint: found[1], path: "" };
    if (typeof item !== "object" || item === null) return undefined;
    if (isArray(item)) {
      for (let index = 0; index < item.length; index++) {
        const inner = search(item[index]);
        if (inner !== undefined) { inner.path = `[${index}]${inner.path}`; return inner; }
      }
      return undefined;
    }
    for (const key of keys(item)) {
      const inner = search(item[key]);
      if (inner !== undefined) { inner.path = step(key) + inner.path; return inner; }
    }
    return undefined;
  };
  const objection = (value) => {
    const found = search(value);
    return found === undefined ? undefined : [`${place(found.path)} is ${found.what}, which JSON cannot hold`, found.hint];
  };

  // A copy of the value that JSON takes whole, and a notice for each part that has lost something by it.
  const represent = (value) => {
    const above = new Set();
    const notices = [];
    let more = 0;
    const instead = (form, path, what, given, hint) => {
      if (notices.length < NOTICES) notices.push(`${place(path)} is ${what}, which JSON cannot hold: ${given} is given instead; ${hint}`);
      else more++;
      return form;
    };
    const shown = (item, path, what, hint) => instead(part("inspect").inspect(item), path, what, "its text", hint);

    const tooDeep = (path) => instead(TOO_DEEP, path, "nested very deeply", `\`${TOO_DEEP}\``, "return a flatter value");

    const pairs = (map, path) => {
      const named = Object.create(null);
      for (const [key, item] of map) {
        const isName = typeof key === "string" || typeof key === "number";
        if (!isName || hasOwn(named, key)) return [...map].map((pair, index) => list(pair, `${path}[${index}]`));
        named[key] = form(item, path + step(`${key}`), `${key}`);
      }
      return named;
    };
    const list = (items, path) => Array.from(items, (item, index) => form(item, `${path}[${index}]`, `${index}`));
    const fields = (item, path, names) => {
      const named = Object.create(null);
      for (const key of names) named[key] = form(item[key], path + step(key), key);
      return named;
    };
    const known = (item, path) => {
      if (item instanceof Map) return pairs(item, path);
      if (item instanceof Set || isArray(item)) return list(item, path);
      if (item instanceof Error) {
        const own = [...keys(item), "cause", "errors"].filter((key) => key !== "stack" && hasOwn(item, key));
        return { type: `${item.name}`, message: `${item.message}`, ...fields(item, path, new Set(own)) };
      }
      if (item instanceof RegExp) return `${item}`;
      if (item instanceof ArrayBuffer) return list(new Uint8Array(item), path);
      if (item instanceof DataView) return list(new Uint8Array(item.buffer, item.byteOffset, item.byteLength), path);
      if (ArrayBuffer.isView(item)) return list(item, path);
      for (const kind of [Number, String, Boolean, BigInt]) if (item instanceof kind) return form(item.valueOf(), path, "");
      const [what, hint] = objectionTo(item) ?? [];
      return what === undefined ? fields(item, path, keys(item)) : shown(item, path, what, hint);
    };
    const form = (item, path, key) => {
      const kind = typeof item;
      if (kind === "bigint") {
        if (Number.isSafeInteger(Number(item))) return Number(item);
        return instead(`${item}`, path, "a large BigInt", "its text", "convert it: `Number(n)`, if it need not be exact");
      }
      if (kind === "function" || kind === "symbol") return shown(item, path, ...objectionTo(item));
      if (kind !== "object" || item === null) return item;
      if (above.has(item))
        return instead(CIRCULAR, path, "a reference back to what holds it", `\`${CIRCULAR}\``, "leave it out, or return only the fields you need");
      if (above.size > DEPTH) return tooDeep(path);
      above.add(item);
      try {
        if (typeof item.toJSON !== "function") return known(item, path);
        const own = item.toJSON(key);
        return own === item ? known(item, path) : form(own, path, key);
      } catch (failure) {
        if (isExhausted(failure)) throw failure;
        if (failure instanceof RangeError && failure.message.includes("call stack")) return tooDeep(path);
        return shown(item, path, `an object that cannot be read (${failure?.message ?? failure})`, "return only the fields you need");
      } finally {
        above.delete(item);
      }
    };
    const copy = form(value, "", "");
    if (more > 0) notices.push(`${more} more parts of the value are given in another form`);
    return [stringify(copy), notices];
  };

  // JSON text, or undefined for a value of null, and what the author should know about it.
  const json = (value) => {
    let text;
    try {
      text = stringify(value);
      if (search(value) === undefined) return [text, []];
    } catch (failure) {
      if (isExhausted(failure)) throw failure;
      // A value that JSON took and that is too deep to search is whole; what it did not take is looked at part by part.
      if (text !== undefined) return [text, []];
    }
    return represent(value);
  };
  return { json, objection };
};
