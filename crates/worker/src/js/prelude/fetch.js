// `fetch` as browsers know it, as far as one whole answer goes: the request is a call, made and judged outside.
export default (native, part) => {
  const { start } = part("tools");
  const { parse } = JSON;
  const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

  class Headers {
    #all = new Map();
    constructor(init) {
      if (init === undefined || init === null) return;
      if (typeof init !== "object") throw new TypeError("headers are an object, a list of pairs, or Headers");
      const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
      for (const [name, value] of pairs) this.append(name, value);
    }
    static #name(name) {
      const text = `${name}`;
      if (!token.test(text)) throw new TypeError(`\`${text.slice(0, 100)}\` is not a valid name of a header`);
      return text.toLowerCase();
    }
    append(name, value) {
      const key = Headers.#name(name);
      const before = this.#all.get(key);
      const text = `${value}`.trim();
      this.#all.set(key, before === undefined ? text : `${before}, ${text}`);
    }
    set(name, value) { this.#all.set(Headers.#name(name), `${value}`.trim()); }
    get(name) { return this.#all.get(Headers.#name(name)) ?? null; }
    has(name) { return this.#all.has(Headers.#name(name)); }
    delete(name) { this.#all.delete(Headers.#name(name)); }
    *entries() { yield* [...this.#all].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); }
    *keys() { for (const [name] of this.entries()) yield name; }
    *values() { for (const [, value] of this.entries()) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    forEach(callback) { for (const [name, value] of this.entries()) callback(value, name, this); }
    toJSON() { return Object.fromEntries(this.entries()); }
  }

  class Response {
    #answer; #used = false; #headers;
    constructor(answer) {
      // Only an answer from outside is one; a program has no use for its own.
      if (answer === undefined || typeof answer?.body !== "string") throw new TypeError("a Response is what `fetch` answers");
      this.#answer = answer;
      this.#headers = new Headers(answer.headers);
    }
    get url() { return this.#answer.url; }
    get status() { return this.#answer.status; }
    get statusText() { return this.#answer.statusText; }
    get ok() { return this.status >= 200 && this.status <= 299; }
    get redirected() { return this.#answer.redirected; }
    get type() { return "basic"; }
    get headers() { return this.#headers; }
    get bodyUsed() { return this.#used; }
    #take() {
      if (this.#used) throw new TypeError("the body of this response was read already: keep what it gave, or use clone()");
      this.#used = true;
      return this.#answer.body;
    }
    async text() {
      const text = native.decode(this.#take(), false);
      return text.startsWith("\ufeff") ? text.slice(1) : text;
    }
    async json() { return parse(await this.text()); }
    async bytes() { return Uint8Array.fromBase64(this.#take()); }
    async arrayBuffer() { return (await this.bytes()).buffer; }
    clone() {
      if (this.#used) throw new TypeError("the body of this response was read already");
      return new Response(this.#answer);
    }
    toJSON() {
      const { url, status, statusText, ok, redirected } = this;
      return { url, status, statusText, ok, redirected, headers: this.#headers.toJSON() };
    }
  }

  const known = new Set(["method", "headers", "body", "redirect"]);
  // What other places know and means nothing here: each request has no cookies and no cache of its own.
  const ignored = new Set(["url", "cache", "credentials", "mode", "keepalive", "referrer", "referrerPolicy", "integrity", "priority", "duplex", "window"]);
  const encoded = (body, headers) => {
    const typed = (type) => { if (!headers.has("content-type")) headers.set("content-type", type); };
    if (typeof body === "string") {
      typed("text/plain;charset=UTF-8");
      return native.encode(body.toWellFormed()).toBase64();
    }
    if (body instanceof URLSearchParams) {
      typed("application/x-www-form-urlencoded;charset=UTF-8");
      return native.encode(`${body}`).toBase64();
    }
    if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return part("files").bytes(body).toBase64();
    throw new TypeError("fetch: a body is a string, bytes or URLSearchParams; for an object use JSON.stringify(value)");
  };
  const asked = (input, options) => {
    const given = typeof input === "object" && input !== null && !(input instanceof URL) ? { ...input, ...options } : { ...options };
    const url = `${given.url !== undefined && typeof input === "object" && !(input instanceof URL) ? given.url : input}`;
    for (const name of Object.keys(given)) {
      if (!known.has(name) && !ignored.has(name) && given[name] !== undefined && given[name] !== null) {
        throw new TypeError(`fetch: the option \`${name}\` is not available here: use method, headers, body, redirect`);
      }
    }
    const headers = new Headers(given.headers);
    const call = { url: new URL(url).href };
    if (given.method !== undefined) call.method = `${given.method}`;
    if (given.redirect !== undefined) call.redirect = `${given.redirect}`;
    if (given.body !== undefined && given.body !== null) call.body = encoded(given.body, headers);
    call.headers = [...headers.entries()];
    return call;
  };
  const fetch = async (input, options) => new Response(await start("fetch", "", "", "fetch", asked(input, options)));
  return { fetch, Headers, Response };
};
