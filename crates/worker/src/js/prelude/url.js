// `URL` and `URLSearchParams` by the WHATWG standard. Hosts of other alphabets are lower-cased, normalized and written in Punycode;
// the standard's tables of characters that no host may have are larger than this.
export default (native) => {
  const SPECIAL = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };
  const isSpecial = (protocol) => Object.hasOwn(SPECIAL, protocol);
  // Characters that are percent-encoded besides controls and what is not ASCII.
  const FRAGMENT = ' "<>`', QUERY = ' "#<>', SPECIAL_QUERY = QUERY + "'", PATH = QUERY + "?^`{}", USER = PATH + "/:;=@[\\]|";
  const percent = (byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  const escape = (text, unsafe) => {
    let out = "";
    for (const char of text) {
      if (char > " " && char < "\x7f" ? !unsafe.includes(char) : char === " " && !unsafe.includes(" ")) out += char;
      else for (const byte of native.encode(char)) out += percent(byte);
    }
    return out;
  };
  const bytesOf = (text) => {
    const bytes = [];
    for (let at = 0; at < text.length;) {
      const pair = text.slice(at + 1, at + 3);
      if (text[at] === "%" && /^[0-9a-f]{2}$/i.test(pair)) { bytes.push(Number.parseInt(pair, 16)); at += 3; continue; }
      const char = String.fromCodePoint(text.codePointAt(at));
      bytes.push(...native.encode(char));
      at += char.length;
    }
    return new Uint8Array(bytes);
  };
  const unescape = (text) => (text.includes("%") ? native.decode(bytesOf(text).toBase64(), false) : text);

  // RFC 3492.
  const punycode = (label) => {
    const points = Array.from(label, (char) => char.codePointAt(0));
    const basic = points.filter((point) => point < 0x80);
    let out = basic.length > 0 ? `${String.fromCodePoint(...basic)}-` : "";
    let next = 0x80, delta = 0, bias = 72, done = basic.length;
    const digit = (value) => String.fromCharCode(value < 26 ? value + 97 : value + 22);
    while (done < points.length) {
      const least = Math.min(...points.filter((point) => point >= next));
      delta += (least - next) * (done + 1);
      next = least;
      for (const point of points) {
        if (point < next) delta++;
        if (point !== next) continue;
        let rest = delta;
        for (let base = 36; ; base += 36) {
          const limit = base <= bias ? 1 : base >= bias + 26 ? 26 : base - bias;
          if (rest < limit) break;
          out += digit(limit + ((rest - limit) % (36 - limit)));
          rest = Math.floor((rest - limit) / (36 - limit));
        }
        out += digit(rest);
        let step = Math.floor(delta / (done === basic.length ? 700 : 2));
        step += Math.floor(step / (done + 1));
        for (bias = 0; step > 455; bias += 36) step = Math.floor(step / 35);
        bias += Math.floor((36 * step) / (step + 38));
        delta = 0;
        done++;
      }
      delta++;
      next++;
    }
    return `xn--${out}`;
  };
  const ipv4 = (host) => {
    const parts = host.split(".");
    if (parts.at(-1) === "" && parts.length > 1) parts.pop();
    const last = parts.at(-1);
    if (!/^(\d+|0x[0-9a-f]*)$/i.test(last)) return undefined;
    const numbers = parts.map((part) =>
      /^0x[0-9a-f]*$/i.test(part) ? Number.parseInt(part.slice(2) || "0", 16)
        : /^0[0-7]*$/.test(part) ? Number.parseInt(part, 8)
        : /^[1-9]\d*$/.test(part) ? Number(part) : Number.NaN);
    const tail = numbers.pop();
    const room = 256 ** (4 - numbers.length);
    if (numbers.length > 3 || numbers.some((number) => !(number <= 255)) || !(tail < room)) return null;
    const whole = numbers.reduce((sum, number, at) => sum + number * 256 ** (3 - at), tail);
    return [24, 16, 8, 0].map((shift) => Math.floor(whole / 2 ** shift) % 256).join(".");
  };
  const ipv6 = (text) => {
    const [head, tail, ...more] = text.split("::");
    if (more.length > 0) return null;
    const pieces = (part) => {
      if (part === undefined || part === "") return [];
      const groups = part.split(":");
      if (groups.at(-1).includes(".")) {
        const four = groups.pop().split(".");
        if (four.length !== 4 || four.some((one) => !/^(0|[1-9]\d{0,2})$/.test(one) || one > 255)) return [Number.NaN];
        groups.push((four[0] * 256 + +four[1]).toString(16), (four[2] * 256 + +four[3]).toString(16));
      }
      return groups.map((group) => (/^[0-9a-f]{1,4}$/i.test(group) ? Number.parseInt(group, 16) : Number.NaN));
    };
    const [left, right] = [pieces(head), pieces(tail)];
    const missing = 8 - left.length - right.length;
    if (tail === undefined ? missing !== 0 : missing < 1) return null;
    const all = [...left, ...Array(missing).fill(0), ...right];
    if (all.some(Number.isNaN)) return null;
    let best = { at: -1, length: 1 };
    for (let at = 0; at < 8; at++) {
      let length = 0;
      while (all[at + length] === 0) length++;
      if (length > best.length) best = { at, length };
    }
    const hex = (part) => part.map((number) => number.toString(16)).join(":");
    return best.at < 0 ? hex(all) : `${hex(all.slice(0, best.at))}::${hex(all.slice(best.at + best.length))}`;
  };
  // A host in its one form, or null for none that there can be.
  const hostOf = (text, special) => {
    if (text.startsWith("[")) {
      const inner = text.endsWith("]") ? ipv6(text.slice(1, -1)) : null;
      return inner === null ? null : `[${inner}]`;
    }
    if (!special) return /[\0\t\n\r #/:<>?@[\\\]^|]/.test(text) ? null : escape(text, "");
    let host = unescape(text).normalize("NFKC").toLowerCase().replace(/[\u3002\uff0e\uff61]/g, ".").replace(/\u00ad/g, "");
    host = host.split(".").map((label) => (/[^\0-\x7f]/.test(label) ? punycode(label.normalize("NFC")) : label)).join(".");
    if (host === "" || /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(host)) return null;
    const number = ipv4(host);
    return number === undefined ? host : number;
  };

  const isDrive = (segment) => /^[a-z][:|]$/i.test(segment);
  const isDot = (segment) => /^(\.|%2e)$/i.test(segment);
  const isDouble = (segment) => /^(\.|%2e){2}$/i.test(segment);
  const walk = (text, from, url) => {
    const special = isSpecial(url.protocol), file = url.protocol === "file:";
    const path = [...from];
    const segments = text.split(special ? /[/\\]/ : "/");
    segments.forEach((segment, at) => {
      const last = at === segments.length - 1;
      if (isDouble(segment)) {
        if (!(file && path.length === 1 && isDrive(path[0]))) path.pop();
        if (last) path.push("");
      } else if (isDot(segment)) {
        if (last) path.push("");
      } else {
        const drive = file && path.length === 0 && isDrive(segment);
        path.push(drive ? `${segment[0]}:` : escape(segment, PATH));
      }
    });
    return path;
  };
  const setPath = (url, text, from = []) => {
    const special = isSpecial(url.protocol);
    if (text === "" && from.length === 0 && !special) { url.path = []; return; }
    url.path = walk(special ? text.replace(/^[/\\]/, "") : text.replace(/^\//, ""), from, url);
  };
  const setQuery = (url, text) => { url.search = text === null ? null : escape(text, isSpecial(url.protocol) ? SPECIAL_QUERY : QUERY); };
  const setHash = (url, text) => { url.hash = text === null ? null : escape(text, FRAGMENT); };
  const setPort = (url, text) => {
    if (text === "") { url.port = ""; return true; }
    if (!/^\d+$/.test(text) || Number(text) > 65535) return false;
    url.port = `${Number(text)}` === SPECIAL[url.protocol] ? "" : `${Number(text)}`;
    return true;
  };
  const setAuthority = (url, text) => {
    const at = text.lastIndexOf("@");
    let rest = text;
    if (at >= 0) {
      const [, user, secret = ""] = /^([^:]*):?([^]*)$/.exec(text.slice(0, at));
      [url.username, url.password] = [escape(user, USER), escape(secret, USER)];
      rest = text.slice(at + 1);
      if (rest === "") return false;
    }
    const [, host, port] = /^(\[[^\]]*\]|[^:]*)(?::([^]*))?$/.exec(rest) ?? [];
    if (host === undefined || (host === "" && (port !== undefined || isSpecial(url.protocol)))) return false;
    url.host = host === "" ? "" : hostOf(host, isSpecial(url.protocol));
    return url.host !== null && setPort(url, port ?? "");
  };

  // A URL's parts, or null for a text that is none.
  const parse = (given, base) => {
    const input = given.replace(/^[\0-\x20]+|[\0-\x20]+$/g, "").replace(/[\t\n\r]/g, "");
    const cut = (text, mark) => { const at = text.indexOf(mark); return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + 1)]; };
    let [rest, hash] = cut(input, "#");
    let query;
    [rest, query] = cut(rest, "?");
    const named = /^([a-z][a-z0-9+.-]*:)([^]*)$/i.exec(rest);
    const url = { protocol: "", username: "", password: "", host: null, port: "", path: [], opaque: null, search: null, hash: null };
    const finish = () => { setQuery(url, query); setHash(url, hash); return url; };
    const inherit = (...names) => { for (const name of names) url[name] = name === "path" ? [...base.path] : base[name]; };
    if (named !== null) {
      url.protocol = named[1].toLowerCase();
      rest = named[2];
    } else {
      if (base === null) return null;
      if (base.opaque !== null) {
        if (input === "" || input[0] !== "#") return null;
        inherit("protocol", "opaque", "search");
        setHash(url, hash);
        return url;
      }
      url.protocol = base.protocol;
    }
    const special = isSpecial(url.protocol), file = url.protocol === "file:";
    const slashes = special ? /^[/\\]+/ : /^\/\//;
    const relative = named === null || (special && base !== null && base.protocol === url.protocol && !/^[/\\]{2}/.test(rest) && base.opaque === null);
    const absolute = named !== null && special && !file && !relative;
    if (file ? /^[/\\]{2}/.test(rest) : absolute || (special ? /^[/\\]{2}/.test(rest) : rest.startsWith("//"))) {
      rest = file ? rest.slice(2) : rest.replace(slashes, "");
      const end = rest.search(special ? /[/\\]/ : /\//);
      const authority = end < 0 ? rest : rest.slice(0, end);
      if (file) {
        if (isDrive(authority)) { url.host = ""; setPath(url, `/${rest}`); return finish(); }
        url.host = authority === "" ? "" : hostOf(authority, true);
        if (url.host === null) return null;
        if (url.host === "localhost") url.host = "";
      } else if (!setAuthority(url, authority)) return null;
      setPath(url, end < 0 ? "" : rest.slice(end));
      return finish();
    }
    if (!relative) {
      if (file) { url.host = ""; setPath(url, rest); return finish(); }
      if (rest.startsWith("/")) { setPath(url, rest); return finish(); }
      url.opaque = escape(rest, "").replace(/ +$/, (spaces) => (query === null && hash === null ? "" : spaces));
      return finish();
    }
    inherit("username", "password", "host", "port");
    if (rest === "") {
      inherit("path", "search");
      if (query !== null) setQuery(url, query);
      setHash(url, hash);
      return url;
    }
    if (rest[0] === "/" || (special && rest[0] === "\\")) {
      const keeps = file && isDrive(base.path[0] ?? "") && !isDrive(rest.slice(1).split(/[/\\]/)[0]);
      setPath(url, rest, keeps ? [base.path[0]] : []);
    }
    else {
      const drive = file && isDrive(rest.split(/[/\\]/)[0]);
      url.path = walk(rest, drive ? [] : base.path.slice(0, -1), url);
    }
    return finish();
  };
  const pathOf = (url) => url.opaque ?? (url.path.length === 0 ? "" : `/${url.path.join("/")}`);
  const href = (url) => {
    const user = url.username === "" && url.password === "" ? "" : `${url.username}${url.password === "" ? "" : `:${url.password}`}@`;
    const authority = url.host === null ? (url.opaque === null && url.path.length > 1 && url.path[0] === "" ? "/." : "")
      : `//${user}${url.host}${url.port === "" ? "" : `:${url.port}`}`;
    return `${url.protocol}${authority}${pathOf(url)}${url.search === null ? "" : `?${url.search}`}${url.hash === null ? "" : `#${url.hash}`}`;
  };

  const text = (value) => `${value}`.toWellFormed();
  const formEncode = (value) => {
    let out = "";
    for (const byte of native.encode(value)) {
      const char = String.fromCharCode(byte);
      out += byte === 0x20 ? "+" : /[A-Za-z0-9*._-]/.test(char) ? char : percent(byte);
    }
    return out;
  };
  const formDecode = (value) => unescape(value.replaceAll("+", " "));
  const formParse = (query) =>
    query.split("&").filter((part) => part !== "").map((part) => {
      const at = part.indexOf("=");
      return at < 0 ? [formDecode(part), ""] : [formDecode(part.slice(0, at)), formDecode(part.slice(at + 1))];
    });

  let follow;
  class URLSearchParams {
    #pairs = [];
    #changed = () => {};
    static { follow = (params, query, changed) => { params.#pairs = formParse(query); if (changed) params.#changed = changed; }; }
    constructor(init = "") {
      if (typeof init === "object" && init !== null) {
        const pairs = typeof init[Symbol.iterator] === "function" ? [...init] : Object.entries(init);
        this.#pairs = pairs.map((given) => {
          const pair = [...given];
          if (pair.length !== 2) throw new TypeError("URLSearchParams: a pair has a name and a value");
          return pair.map(text);
        });
        if (typeof init[Symbol.iterator] !== "function") this.#pairs = Object.entries(init).map((pair) => pair.map(text));
      } else this.#pairs = formParse(text(init).replace(/^\?/, ""));
    }
    get size() { return this.#pairs.length; }
    append(name, value) { this.#pairs.push([text(name), text(value)]); this.#changed(); }
    delete(name, value) {
      const [key, wanted] = [text(name), value === undefined ? undefined : text(value)];
      this.#pairs = this.#pairs.filter((pair) => pair[0] !== key || (wanted !== undefined && pair[1] !== wanted));
      this.#changed();
    }
    get(name) { const key = text(name); return this.#pairs.find((pair) => pair[0] === key)?.[1] ?? null; }
    getAll(name) { const key = text(name); return this.#pairs.filter((pair) => pair[0] === key).map((pair) => pair[1]); }
    has(name, value) {
      const [key, wanted] = [text(name), value === undefined ? undefined : text(value)];
      return this.#pairs.some((pair) => pair[0] === key && (wanted === undefined || pair[1] === wanted));
    }
    set(name, value) {
      const key = text(name);
      const first = this.#pairs.find((pair) => pair[0] === key);
      if (first === undefined) this.#pairs.push([key, text(value)]);
      else {
        first[1] = text(value);
        this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== key);
      }
      this.#changed();
    }
    sort() { this.#pairs.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0)); this.#changed(); }
    forEach(callback, self) { for (const [name, value] of this.#pairs) callback.call(self, value, name, this); }
    *entries() { for (const pair of this.#pairs) yield [...pair]; }
    *keys() { for (const [name] of this.#pairs) yield name; }
    *values() { for (const [, value] of this.#pairs) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map((pair) => pair.map(formEncode).join("=")).join("&"); }
    toJSON() { return this.toString(); }
  }

  const read = (given, base) => {
    const from = base === undefined ? null : parse(text(base), null);
    return base !== undefined && from === null ? null : parse(text(given), from);
  };
  class URL {
    #url;
    #params;
    constructor(given, base) {
      const url = read(given, base);
      if (url === null) {
        const error = new TypeError(`\`${text(given).slice(0, 200)}\` is not a valid URL${base === undefined ? "" : ` below \`${text(base).slice(0, 200)}\``}`);
        error.code = "ERR_INVALID_URL";
        throw error;
      }
      this.#url = url;
    }
    static canParse(given, base) { return read(given, base) !== null; }
    static parse(given, base) { return read(given, base) === null ? null : new URL(given, base); }
    #followed() { if (this.#params !== undefined) follow(this.#params, this.#url.search ?? ""); }
    get href() { return href(this.#url); }
    set href(value) { this.#url = new URL(value).#url; this.#followed(); }
    get origin() {
      const { protocol, host, port, opaque } = this.#url;
      if (protocol === "blob:" && opaque !== null) return /^https?:/.test(opaque) && URL.canParse(opaque) ? new URL(opaque).origin : "null";
      return isSpecial(protocol) && protocol !== "file:" ? `${protocol}//${host}${port === "" ? "" : `:${port}`}` : "null";
    }
    get protocol() { return this.#url.protocol; }
    set protocol(value) {
      const url = this.#url;
      const name = /^([a-z][a-z0-9+.-]*)(:|$)/i.exec(text(value))?.[1].toLowerCase();
      if (name === undefined || isSpecial(`${name}:`) !== isSpecial(url.protocol)) return;
      if (name === "file" && (url.username !== "" || url.password !== "" || url.port !== "")) return;
      if (url.protocol === "file:" && url.host === "") return;
      url.protocol = `${name}:`;
      if (url.port === SPECIAL[url.protocol]) url.port = "";
    }
    #hasPlace() { const { host, protocol } = this.#url; return host !== null && host !== "" && protocol !== "file:"; }
    get username() { return this.#url.username; }
    set username(value) { if (this.#hasPlace()) this.#url.username = escape(text(value), USER); }
    get password() { return this.#url.password; }
    set password(value) { if (this.#hasPlace()) this.#url.password = escape(text(value), USER); }
    get host() { const { host, port } = this.#url; return `${host ?? ""}${port === "" ? "" : `:${port}`}`; }
    set host(value) {
      const [, host, port] = /^(\[[^\]]*\]|[^:/?#\\]*)(?::(\d*))?/.exec(text(value));
      if (port !== undefined && this.#url.protocol === "file:") return;
      this.hostname = host;
      if (port && this.#hasPlace()) setPort(this.#url, port);
    }
    get hostname() { return this.#url.host ?? ""; }
    set hostname(value) {
      const url = this.#url;
      if (url.opaque !== null) return;
      const [whole, given] = /^(\[[^\]]*\]|[^:/?#\\]*):?/.exec(text(value));
      if (whole.endsWith(":")) return;
      const host = given === "" ? (isSpecial(url.protocol) && url.protocol !== "file:" ? null : "") : hostOf(given, isSpecial(url.protocol));
      if (host !== null) url.host = host;
    }
    get port() { return this.#url.port; }
    set port(value) {
      const digits = /^\d*/.exec(text(value))[0];
      if (this.#hasPlace() && (digits !== "" || text(value) === "")) setPort(this.#url, digits);
    }
    get pathname() { return pathOf(this.#url); }
    set pathname(value) {
      if (this.#url.opaque !== null) return;
      const given = text(value).replace(/[\t\n\r]/g, "").replace(/[?#]/g, (mark) => escape(mark, "?#"));
      setPath(this.#url, /^\//.test(given) || given === "" ? given : `/${given}`);
    }
    get search() { const { search } = this.#url; return search === null || search === "" ? "" : `?${search}`; }
    set search(value) {
      const given = text(value).replace(/^\?/, "");
      setQuery(this.#url, text(value) === "" ? null : given);
      this.#followed();
    }
    get searchParams() {
      if (this.#params === undefined) {
        this.#params = new URLSearchParams();
        follow(this.#params, this.#url.search ?? "", () => { this.#url.search = `${this.#params}` === "" ? null : `${this.#params}`; });
      }
      return this.#params;
    }
    get hash() { const { hash } = this.#url; return hash === null || hash === "" ? "" : `#${hash}`; }
    set hash(value) { setHash(this.#url, text(value) === "" ? null : text(value).replace(/^#/, "")); }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }
  for (const kind of [URL, URLSearchParams]) {
    Object.defineProperty(kind.prototype, Symbol.toStringTag, { value: kind.name, configurable: true });
    for (const [name, found] of Object.entries(Object.getOwnPropertyDescriptors(kind.prototype)))
      if (name !== "constructor") Object.defineProperty(kind.prototype, name, { ...found, enumerable: true });
  }
  return { URL, URLSearchParams };
};
