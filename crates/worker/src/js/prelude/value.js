// Says where a value holds what JSON would drop or empty without a word, or returns undefined. Runs after JSON.stringify, so
// there are no circles and no big integers left to find.
export default () => (value) => {
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
  const found = (what, hint) => ({ what, hint, path: "" });
  const search = (item) => {
    if (typeof item === "function") return found("a function", "call it, or leave it out");
    if (typeof item === "symbol") return found("a symbol", "convert it: `symbol.description`");
    if (typeof item !== "object" || item === null || typeof item.toJSON === "function") return undefined;
    if (Array.isArray(item)) {
      for (let index = 0; index < item.length; index++) {
        const inner = search(item[index]);
        if (inner !== undefined) { inner.path = `[${index}]${inner.path}`; return inner; }
      }
      return undefined;
    }
    if (Object.getPrototypeOf(item) !== Object.prototype) {
      for (const [kind, what, hint] of advice) if (item instanceof kind) return found(what, hint);
      if (ArrayBuffer.isView(item)) return found("binary data", "convert it: `[...bytes]`, or write it to a file");
    }
    for (const key of Object.keys(item)) {
      const inner = search(item[key]);
      if (inner !== undefined) {
        inner.path = (/^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`) + inner.path;
        return inner;
      }
    }
    return undefined;
  };
  const objection = search(value);
  if (objection === undefined) return undefined;
  const where = objection.path === "" ? "the value" : `value${objection.path}`;
  return [`${where} is ${objection.what}, which JSON cannot hold`, objection.hint];
};
