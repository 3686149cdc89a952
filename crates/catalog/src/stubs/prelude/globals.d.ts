// What every program finds besides the language itself and its tools.

declare namespace ringfence {
  /** A call that was refused or failed. */
  class ToolError extends Error {
    constructor(
      message: string,
      options?: { code?: string; rule?: string | null; hint?: string | null; retryAfterMs?: number | null; tool?: string | null },
    );
    /** A stable word such as `policy.denied`. */
    readonly code: string;
    /** The policy's rule that decided, if one did. */
    readonly rule: string | null;
    /** What to do instead, if that is known. */
    readonly hint: string | null;
    /** In how many milliseconds it is worth trying again, if that is known. */
    readonly retryAfterMs: number | null;
    /** The tool that was called. */
    readonly tool: string | null;
  }
}
import ToolError = ringfence.ToolError;

interface CallableFunction {
  /** Of a tool only: calls it, and gives a refusal or failure back instead of throwing it. */
  try<A extends unknown[], R>(
    this: (...args: A) => Promise<R>,
    ...args: A
  ): Promise<{ ok: true; data: R } | { ok: false; error: ToolError }>;
}

type Detail = "names" | "summary" | "signature" | "full";
interface SearchOptions {
  intents?: string[];
  query?: string;
  /** What the whole work is about, as context. */
  task?: string;
  detail?: Detail;
  language?: "typescript" | "python" | "json";
  limit?: number;
  cursor?: string;
}
interface DescribeOptions {
  tools?: string[];
  detail?: Detail;
  language?: "typescript" | "python" | "json";
}
interface ListOptions {
  server?: string;
  domain?: string;
  cursor?: string;
}

/** Finds tools by what they do: one short phrase, or several, each answered. */
declare function search(intents: string | string[] | SearchOptions, options?: SearchOptions): Promise<any>;
/** Tells more of tools by their names. */
declare function describe(tools: string | string[] | DescribeOptions, options?: DescribeOptions): Promise<any>;
/** The servers, or the tools of one. */
declare function list(server?: string | ListOptions, options?: ListOptions): Promise<any>;

/** Files below /workspace; relative paths start there. */
declare const files: {
  read(path: string, encoding?: "utf-8" | "utf8" | "latin1" | "binary" | "base64" | "hex" | { encoding?: string }): string;
  readBytes(path: string): Uint8Array;
  /** Makes the folders above. */
  write(path: string, data: string | number | boolean | ArrayBuffer | ArrayBufferView): void;
  /** Names in a folder, sorted; folders end in a slash. */
  list(path?: string): string[];
};

/** Lets a file of /workspace go out with the result, as it is at the end; `type` is a media type such as `text/csv`. */
declare function emit(path: string, options?: { type?: string }): void;
/** Lets data go out as the file `name` below /workspace: text, bytes, or anything that JSON can hold. */
declare function emit(data: string | number | boolean | object | null, options: { name: string; type?: string }): void;

/** What was given to the program on the command line. */
declare const args: string[];

interface Console {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
  dir(value: unknown): void;
  table(value: unknown): void;
  trace(...values: unknown[]): void;
  assert(condition?: unknown, ...values: unknown[]): void;
  group(...values: unknown[]): void;
  groupEnd(): void;
  count(label?: string): void;
  countReset(label?: string): void;
  time(label?: string): void;
  timeLog(label?: string, ...values: unknown[]): void;
  timeEnd(label?: string): void;
}
declare const console: Console;

declare function setTimeout<A extends unknown[]>(callback: (...values: A) => void, delay?: number, ...values: A): number;
declare function setInterval<A extends unknown[]>(callback: (...values: A) => void, delay?: number, ...values: A): number;
declare function clearTimeout(id: number | undefined): void;
declare function clearInterval(id: number | undefined): void;
declare function queueMicrotask(callback: () => void): void;
declare function structuredClone<T>(value: T): T;
declare const performance: { now(): number; readonly timeOrigin: number };

declare class TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: "utf-8";
  decode(bytes?: ArrayBuffer | ArrayBufferView): string;
}

declare class URLSearchParams {
  constructor(init?: string | Iterable<[string, string] | string[]> | Record<string, string | number | boolean>);
  readonly size: number;
  append(name: string, value: string | number | boolean): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string | number | boolean): void;
  sort(): void;
  forEach(callback: (value: string, name: string, params: URLSearchParams) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}
declare class URL {
  constructor(url: string | URL, base?: string | URL);
  static canParse(url: string | URL, base?: string | URL): boolean;
  static parse(url: string | URL, base?: string | URL): URL | null;
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  readonly searchParams: URLSearchParams;
  hash: string;
  toString(): string;
  toJSON(): string;
}
interface Headers {
  append(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  has(name: string): boolean;
  set(name: string, value: string): void;
  forEach(callback: (value: string, name: string, headers: Headers) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}
declare const Headers: { new (init?: HeadersInit): Headers };
type HeadersInit = Headers | Record<string, string> | Iterable<[string, string] | string[]>;
interface FetchOptions {
  method?: string;
  /** `{{NAME}}` in a value stands for the operator's credential of that name. */
  headers?: HeadersInit;
  body?: string | ArrayBuffer | ArrayBufferView | URLSearchParams | null;
  redirect?: "follow" | "manual" | "error";
}
/** A whole answer of at most 8 MiB. */
interface Response {
  readonly ok: boolean;
  readonly status: number;
  readonly statusText: string;
  readonly url: string;
  readonly redirected: boolean;
  readonly headers: Headers;
  readonly bodyUsed: boolean;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  clone(): Response;
}
/** A request to the network, where the policy opens it (`net.enabled: true`); else it throws a ToolError. */
declare function fetch(url: string | URL | ({ url: string } & FetchOptions), options?: FetchOptions): Promise<Response>;

/** Chance is the same when a run is repeated: not for keys. */
declare const crypto: {
  randomUUID(): string;
  getRandomValues<T extends ArrayBufferView>(array: T): T;
  readonly subtle: { digest(algorithm: string | { name: string }, data: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer> };
};

declare module "tools" {
  export import ToolError = ringfence.ToolError;
  export const search: typeof globalThis.search;
  export const describe: typeof globalThis.describe;
  export const list: typeof globalThis.list;
}
