// `crypto`: chance and digests. Chance comes from the run's seed, so that a program can be run again: it is not for keys.
export default (native, part) => {
  const MOST = 65536;
  const INTEGERS = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array];
  const DIGESTS = ["SHA-1", "SHA-256", "SHA-384", "SHA-512"];
  const named = (name, message) => {
    const error = new Error(message);
    error.name = name;
    return error;
  };

  const randomUUID = () => {
    const bytes = native.randomBytes(16);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    return bytes.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  };
  const getRandomValues = (array) => {
    if (!INTEGERS.some((kind) => array instanceof kind))
      throw named("TypeMismatchError", "crypto.getRandomValues needs a typed array of integers");
    if (array.byteLength > MOST)
      throw named("QuotaExceededError", `crypto.getRandomValues gives at most ${MOST} bytes at once, not ${array.byteLength}`);
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(native.randomBytes(array.byteLength));
    return array;
  };

  const digest = async (algorithm, data) => {
    const given = `${typeof algorithm === "object" && algorithm !== null ? algorithm.name : algorithm}`;
    const name = DIGESTS.find((known) => known === given.toUpperCase());
    if (name === undefined)
      throw named("NotSupportedError", `crypto.subtle.digest knows ${DIGESTS.join(", ")}, not \`${given.slice(0, 100)}\``);
    if (!(data instanceof ArrayBuffer) && !ArrayBuffer.isView(data))
      throw new TypeError("crypto.subtle.digest needs an ArrayBuffer or a typed array: `new TextEncoder().encode(text)` makes one of text");
    return native.digest(name, part("files").bytes(data).toBase64()).buffer;
  };
  const subtle = { digest };
  const absent = "encrypt decrypt sign verify generateKey deriveKey deriveBits importKey exportKey wrapKey unwrapKey";
  for (const name of absent.split(" "))
    subtle[name] = async () => { throw named("NotSupportedError", `crypto.subtle.${name} is not available here: of crypto.subtle there is \`digest\``); };
  return { crypto: { randomUUID, getRandomValues, subtle } };
};
