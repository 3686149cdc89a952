// References that hold what they point to, and registries that never tell: what the garbage collector does when is nothing that
// a program could be run again with, and the language allows it to do nothing.
export default () => {
  const check = (target, what) => {
    const holds = (typeof target === "object" && target !== null) || typeof target === "function"
      || (typeof target === "symbol" && Symbol.keyFor(target) === undefined);
    if (!holds) throw new TypeError(`${what} needs an object or a symbol`);
  };
  class WeakRef {
    #target;
    constructor(target) {
      check(target, "WeakRef");
      this.#target = target;
    }
    deref() { return this.#target; }
  }
  class FinalizationRegistry {
    #tokens = new WeakSet();
    constructor(callback) {
      if (typeof callback !== "function") throw new TypeError("FinalizationRegistry needs a function to call");
    }
    register(target, held, token) {
      check(target, "FinalizationRegistry.register");
      if (target === held) throw new TypeError("FinalizationRegistry.register: the held value is the target itself");
      if (token === undefined) return;
      check(token, "FinalizationRegistry.register");
      this.#tokens.add(token);
    }
    unregister(token) {
      check(token, "FinalizationRegistry.unregister");
      return this.#tokens.delete(token);
    }
  }
  for (const kind of [WeakRef, FinalizationRegistry])
    Object.defineProperty(kind.prototype, Symbol.toStringTag, { value: kind.name, configurable: true });
  return { WeakRef, FinalizationRegistry };
};
