// Names that programs know from browsers and servers.
export default (native, part) => ({
  // The engine has no tables of languages: whoever asks for them is told so, and what helps.
  Intl: new Proxy(Object.freeze(Object.create(null)), {
    get: (_, name) => {
      if (typeof name === "symbol") return name === Symbol.toStringTag ? "Intl" : undefined;
      throw new TypeError(`Intl.${name} is not available here: the engine knows no languages and regions; write numbers with \`toFixed\` and dates with \`toISOString\`, or use Python's \`format\` and \`zoneinfo\``);
    },
  }),
  structuredClone: (value) => part("clone")(value),
  TextEncoder: class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return native.encode(`${text}`.toWellFormed()); }
  },
  TextDecoder: class TextDecoder {
    #fatal; #keepMark;
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      if (!/^utf-?8$/i.test(label)) throw new RangeError(`the encoding \`${label}\` is not available: use utf-8`);
      this.#fatal = fatal;
      this.#keepMark = ignoreBOM;
    }
    get encoding() { return "utf-8"; }
    decode(bytes) {
      if (bytes === undefined) return "";
      const text = native.decode(part("files").bytes(bytes).toBase64(), this.#fatal);
      return !this.#keepMark && text.startsWith("\ufeff") ? text.slice(1) : text;
    }
  },
});
