// `emit`: a file of the workspace, or data that becomes one, goes out with the result.
export default (native, part) => {
  const { stringify } = JSON;
  const kind = (value) => (value === null ? "null" : Array.isArray(value) ? "a list" : `a value of type ${typeof value}`);
  const option = (options, key) => {
    const value = options[key];
    if (value === undefined || value === null) return undefined;
    if (typeof value !== "string") throw new TypeError(`emit: \`${key}\` is text, not ${kind(value)}`);
    return value.toWellFormed();
  };
  const read = (options) => {
    if (options === undefined) return {};
    if (typeof options !== "object" || options === null || Array.isArray(options))
      throw new TypeError(`emit: options are an object such as { name: "report.csv", type: "text/csv" }, not ${kind(options)}`);
    const unknown = Object.keys(options).find((key) => key !== "name" && key !== "type");
    if (unknown !== undefined) throw new TypeError(`emit: there is no option \`${unknown}\`: there are \`name\` and \`type\``);
    return { name: option(options, "name"), type: option(options, "type") };
  };
  const json = (value) => {
    const text = stringify(value);
    const [what, hint] = part("value").objection(value) ?? [];
    if (what !== undefined) throw new TypeError(`emit: ${what}; ${hint}`);
    return text;
  };
  return (what, options) => {
    const { name, type } = read(options);
    if (what === undefined) throw new TypeError("emit: nothing was given: name a file of the workspace, or give data and its `name`");
    if (name === undefined) {
      if (typeof what === "string") return native.emit(what.toWellFormed(), type);
      throw new TypeError(`emit: ${kind(what)} needs a \`name\`, such as emit(data, { name: "report.json" })`);
    }
    if (typeof what === "string") {
      const text = what.toWellFormed();
      if (native.isFile(text))
        throw new TypeError(`emit: \`${text}\` is a file of the workspace: leave \`name\` out to let that file go out; text goes out under a \`name\``);
      return native.emitText(name, text, type);
    }
    if (what instanceof ArrayBuffer || ArrayBuffer.isView(what))
      return native.emitBytes(name, part("files").bytes(what).toBase64(), type);
    return native.emitText(name, json(what), type);
  };
};
