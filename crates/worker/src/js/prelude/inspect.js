// Values as text, in the manner of Node's console: nested to a depth, short lists on one line, everything capped.
export default (native) => {
  const DEPTH = 4, ITEMS = 100, TEXT = 10000, WIDTH = 76, TOTAL = 200000;

  const quote = (text) => {
    const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") ? "`" : "'";
    let inner = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');
    if (mark === "'") inner = inner.replaceAll("'", "\\'");
    return mark + inner + mark;
  };
  const nameOf = (item) => {
    for (let from = Object.getPrototypeOf(item); from !== null; from = Object.getPrototypeOf(from)) {
      const maker = Object.getOwnPropertyDescriptor(from, "constructor")?.value;
      if (typeof maker === "function" && maker.name !== "") return maker.name;
    }
    return null;
  };
  const functionText = (item) => {
    const source = Function.prototype.toString.call(item);
    if (/^class\b/.test(source)) {
      const base = Object.getPrototypeOf(item)?.name;
      return `[class ${item.name || "(anonymous)"}${base ? ` extends ${base}` : ""}]`;
    }
    const kind = Object.getPrototypeOf(item)?.constructor?.name ?? "Function";
    return `[${kind}${item.name ? `: ${item.name}` : " (anonymous)"}]`;
  };
  const keyText = (key) =>
    typeof key === "symbol" ? `[${key.toString()}]` : /^[A-Za-z_$][\w$]*$/.test(key) ? key : quote(key);

  const inspector = () => {
    const path = [];
    let spent = 0;

    const text = (item) => {
      const shown = item.length > TEXT ? item.slice(0, TEXT) : item;
      return quote(shown) + (item.length > TEXT ? `... ${item.length - TEXT} more characters` : "");
    };
    const join = (open, close, entries, list) => {
      if (entries.length === 0) return `${open}${close}`;
      const flat = entries.join(", ");
      if (flat.length + open.length <= WIDTH && !flat.includes("\n")) return `${open} ${flat} ${close}`;
      const pad = "  ";
      if (list && entries.length > 6 && entries.every((entry) => entry.length <= 16)) {
        const rows = [];
        let row = "";
        for (const entry of entries) {
          if (row !== "" && row.length + entry.length + 2 > WIDTH) { rows.push(row); row = ""; }
          row += (row === "" ? "" : ", ") + entry;
        }
        rows.push(row);
        return `${open}\n${pad}${rows.join(`,\n${pad}`)}\n${close}`;
      }
      return `${open}\n${entries.map((entry) => pad + entry.replaceAll("\n", `\n${pad}`)).join(",\n")}\n${close}`;
    };
    const property = (item, key) => {
      const found = Object.getOwnPropertyDescriptor(item, key);
      if (found === undefined) return "undefined";
      if (found.get !== undefined) return found.set !== undefined ? "[Getter/Setter]" : "[Getter]";
      if (found.set !== undefined) return "[Setter]";
      return inspect(found.value);
    };
    const properties = (item, skip) => {
      const keys = Object.keys(item).filter((key) => !skip?.(key));
      for (const symbol of Object.getOwnPropertySymbols(item))
        if (Object.getOwnPropertyDescriptor(item, symbol)?.enumerable) keys.push(symbol);
      const entries = keys.slice(0, ITEMS).map((key) => `${keyText(key)}: ${property(item, key)}`);
      if (keys.length > ITEMS) entries.push(`... ${keys.length - ITEMS} more properties`);
      return entries;
    };
    const take = (iterable, size, show) => {
      const entries = [];
      for (const entry of iterable) {
        if (entries.length === ITEMS) { entries.push(`... ${size - ITEMS} more item${size - ITEMS > 1 ? "s" : ""}`); break; }
        entries.push(show(entry));
      }
      return entries;
    };
    const list = (item, prefix) => {
      const entries = [];
      let holes = 0;
      const flush = () => { if (holes > 0) entries.push(`<${holes} empty item${holes > 1 ? "s" : ""}>`); holes = 0; };
      let index = 0;
      for (; index < item.length && entries.length < ITEMS; index++) {
        if (index in item) { flush(); entries.push(inspect(item[index])); } else holes++;
      }
      flush();
      if (index < item.length) entries.push(`... ${item.length - index} more item${item.length - index > 1 ? "s" : ""}`);
      entries.push(...properties(item, (key) => /^\d+$/.test(key)));
      return join(`${prefix}[`, "]", entries, true);
    };
    const error = (item) => {
      let head;
      try { head = Error.prototype.toString.call(item); } catch { head = "Error"; }
      const stack = typeof item.stack === "string" ? native.trace(item.stack).trimEnd() : "";
      let shown = stack === "" ? `[${head}]` : stack.startsWith(head) ? stack : `${head}\n${stack}`;
      const extra = properties(item, (key) => key === "stack" || key === "message");
      if (Object.hasOwn(item, "cause")) extra.push(`[cause]: ${inspect(item.cause)}`);
      if (Array.isArray(item.errors)) extra.push(`[errors]: ${inspect(item.errors)}`);
      if (extra.length > 0) shown += " " + join("{", "}", extra, false);
      return shown;
    };
    const object = (item) => {
      const name = nameOf(item);
      const label = name === null ? "[Object: null prototype]" : name;
      const prefix = name === "Object" ? "" : `${label} `;
      if (Array.isArray(item)) return list(item, name === "Array" ? "" : `${label}(${item.length}) `);
      if (item instanceof Error) return error(item);
      if (item instanceof Map)
        return join(`${label}(${item.size}) {`, "}", [...take(item, item.size, ([key, value]) => `${inspect(key)} => ${inspect(value)}`), ...properties(item)], false);
      if (item instanceof Set)
        return join(`${label}(${item.size}) {`, "}", [...take(item, item.size, inspect), ...properties(item)], false);
      if (item instanceof Date) return Number.isNaN(item.getTime()) ? "Invalid Date" : item.toISOString();
      if (item instanceof RegExp) return RegExp.prototype.toString.call(item);
      if (item instanceof ArrayBuffer) return `${label} { byteLength: ${item.byteLength} }`;
      if (item instanceof DataView) return `${label} { byteLength: ${item.byteLength}, byteOffset: ${item.byteOffset} }`;
      if (ArrayBuffer.isView(item))
        return join(`${label}(${item.length}) [`, "]", take(item, item.length, (entry) => primitive(entry)), true);
      for (const kind of [Number, String, Boolean, BigInt, Symbol])
        if (item instanceof kind) return `[${kind.name}: ${primitive(item.valueOf())}]`;
      const tag = item[Symbol.toStringTag];
      const shown = typeof tag === "string" && tag !== "" && tag !== name ? `${label} [${tag}] ` : prefix;
      return join(`${shown}{`, "}", properties(item), false);
    };
    const primitive = (item) => {
      switch (typeof item) {
        case "string": return text(item);
        case "bigint": return `${item}n`;
        case "symbol": return item.toString();
        case "number": return Object.is(item, -0) ? "-0" : `${item}`;
        default: return `${item}`;
      }
    };
    const leaf = (shown) => { spent += shown.length; return shown; };
    const inspect = (item) => {
      if (spent > TOTAL) return "...";
      if (typeof item === "function") {
        const extra = path.length > DEPTH ? [] : properties(item);
        return extra.length === 0 ? leaf(functionText(item)) : join(`${functionText(item)} {`, "}", extra, false);
      }
      if (typeof item !== "object" || item === null) return leaf(primitive(item));
      if (path.includes(item)) return leaf("[Circular]");
      if (path.length > DEPTH) return leaf(Array.isArray(item) ? "[Array]" : `[${nameOf(item) ?? "Object: null prototype"}]`);
      spent += 4;
      path.push(item);
      try {
        return object(item);
      } catch (failure) {
        return `[cannot be shown: ${failure?.message ?? failure}]`;
      } finally {
        path.pop();
      }
    };
    return inspect;
  };
  const inspect = (value) => inspector()(value);

  const specifier = (letter, value) => {
    switch (letter) {
      case "s": return typeof value === "string" ? value : typeof value === "bigint" ? `${value}n`
        : typeof value === "object" && value !== null ? inspect(value) : String(value);
      case "d": return typeof value === "object" ? "NaN" : typeof value === "bigint" ? `${value}n` : `${Number(value)}`;
      case "i": return typeof value === "object" ? "NaN" : typeof value === "bigint" ? `${value}n` : `${Number.parseInt(value, 10)}`;
      case "f": return `${Number.parseFloat(value)}`;
      case "j": try { return JSON.stringify(value); } catch { return "[Circular]"; }
      case "c": return "";
      default: return inspect(value);
    }
  };
  const format = (values) => {
    let rest = values;
    const shown = [];
    if (typeof values[0] === "string" && values.length > 1 && values[0].includes("%")) {
      let next = 1;
      shown.push(values[0].replace(/%([sdifjoOc%])/g, (all, letter) =>
        letter === "%" ? "%" : next < values.length ? specifier(letter, values[next++]) : all));
      rest = values.slice(next);
    }
    for (const value of rest) shown.push(typeof value === "string" ? value : inspect(value));
    return shown.join(" ");
  };
  const table = (rows) => {
    if (typeof rows !== "object" || rows === null) return rows;
    const entries = rows instanceof Map ? [...rows] : Object.entries(rows);
    const columns = [];
    let bare = false;
    for (const [, row] of entries) {
      if (typeof row !== "object" || row === null) { bare = true; continue; }
      for (const key of Object.keys(row)) if (!columns.includes(key)) columns.push(key);
    }
    const head = ["(index)", ...columns, ...(bare ? ["Values"] : [])];
    const cells = entries.slice(0, ITEMS * 10).map(([key, row]) => {
      const nested = typeof row === "object" && row !== null;
      return [String(key), ...columns.map((column) => (nested && Object.hasOwn(row, column) ? inspect(row[column]) : "")),
        ...(bare ? [nested ? "" : inspect(row)] : [])];
    });
    const widths = head.map((title, column) => Math.max(title.length, ...cells.map((row) => row[column].length)) + 2);
    const line = (row) => `│${row.map((cell, column) => ` ${cell}`.padEnd(widths[column])).join("│")}│`;
    const rule = (left, middle, right) => left + widths.map((width) => "─".repeat(width)).join(middle) + right;
    return [rule("┌", "┬", "┐"), line(head), rule("├", "┼", "┤"), ...cells.map(line), rule("└", "┴", "┘")].join("\n");
  };
  return { format, inspect, table };
};
