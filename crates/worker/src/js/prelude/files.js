// The parts of `files` that look at their arguments.
export default (native) => {
  const bytes = (data) => {
    if (data instanceof Uint8Array) return data;
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    throw new TypeError("expected a string, an ArrayBuffer or a typed array");
  };
  return {
    bytes,
    read: (path, options) => {
      const encoding = (typeof options === "string" ? options : options?.encoding) ?? "utf-8";
      switch (`${encoding}`.toLowerCase()) {
        case "utf-8": case "utf8": return native.read(path);
        case "latin1": case "binary": return native.readLatin1(path);
        case "base64": return native.readBytes(path).toBase64();
        case "hex": return native.readBytes(path).toHex();
        default: throw new RangeError(`files.read: the encoding \`${encoding}\` is not one of utf-8, latin1, base64, hex`);
      }
    },
    write: (path, data) => {
      if (typeof data === "string") native.write(path, data.toWellFormed());
      else if (typeof data === "number" || typeof data === "boolean") native.write(path, `${data}`);
      else if (data instanceof ArrayBuffer || ArrayBuffer.isView(data)) native.writeBytes(path, bytes(data).toBase64());
      else throw new TypeError(`files.write: cannot write ${data === null ? "null" : `a value of type ${typeof data}`}: give a string or bytes, for example JSON.stringify(value)`);
    },
  };
};
