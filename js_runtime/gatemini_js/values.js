// References taken at boot, the kind of any value, and its text for people (console, errors).
//
// Evaluated once, when the memory image is made, before any user code exists. The bridge works on references
// taken now, so nothing a chain does later to Object.prototype, JSON, Map or Promise can reach it:
//   - methods are uncurried (`mapGet(map, key)`), never looked up on a value;
//   - own objects and lists have no prototype, so no inherited setter or `get` can step in;
//   - no iteration protocol, no spread, no destructuring of arrays, no regular expressions;
//   - no template literals: the engine turns them into calls of String.prototype.concat.
(function () {
  "use strict";

  const { bind, call } = Function.prototype;
  const uncurry = bind.bind(call);
  const getter = (proto, name) => uncurry(Reflect.getOwnPropertyDescriptor(proto, name).get);
  const TypedArrayPrototype = Reflect.getPrototypeOf(Uint8Array.prototype);

  const own = {
    __proto__: null,
    apply: Reflect.apply,
    protoOf: Reflect.getPrototypeOf,
    ownKeys: Reflect.ownKeys,
    construct: Reflect.construct,
    define: Reflect.defineProperty,
    create: Object.create,
    keys: Object.keys,
    freeze: Object.freeze,
    setProto: Object.setPrototypeOf,
    hasOwn: Object.hasOwn,
    isArray: Array.isArray,
    isFiniteNumber: Number.isFinite,
    Number,
    String,
    parseInt,
    parseFloat,
    encodeURIComponent,
    unescape,
    stringify: JSON.stringify,
    parse: JSON.parse,
    Promise,
    PromisePrototype: Promise.prototype,
    then: uncurry(Promise.prototype.then),
    race: uncurry(Promise.race), any: uncurry(Promise.any),
    Error,
    captureStackTrace: Error.captureStackTrace,
    TypeError,
    RangeError,
    ReferenceError,
    Proxy,
    Map,
    WeakMap,
    Set,
    species: Symbol.species,
    asyncIterator: Symbol.asyncIterator,
    toPrimitive: Symbol.toPrimitive,
    toStringTag: Symbol.toStringTag,
    iterator: Symbol.iterator,
    ObjectPrototype: Object.prototype,
    ArrayPrototype: Array.prototype,
    IteratorPrototype: Iterator.prototype,
    AsyncIteratorPrototype: Reflect.getPrototypeOf(Reflect.getPrototypeOf((async function* () {}).prototype)),
    join: uncurry(Array.prototype.join),
    includes: uncurry(Array.prototype.includes),
    slice: uncurry(String.prototype.slice),
    indexOf: uncurry(String.prototype.indexOf),
    charCode: uncurry(String.prototype.charCodeAt),
    isWellFormed: uncurry(String.prototype.isWellFormed),
    toWellFormed: uncurry(String.prototype.toWellFormed),
    trim: uncurry(String.prototype.trim),
    bigToString: uncurry(BigInt.prototype.toString),
    symbolToString: uncurry(Symbol.prototype.toString),
    regexpToString: uncurry(RegExp.prototype.toString),
    regexpSource: getter(RegExp.prototype, "source"),
    now: Date.now,
    // Milliseconds of the monotonic clock, for the bridge's own timers: reading it leaves no trace in the journal.
    tick: uncurry(performance.now).bind(null, performance),
    time: uncurry(Date.prototype.getTime),
    iso: uncurry(Date.prototype.toISOString),
    mapSize: getter(Map.prototype, "size"),
    mapDelete: uncurry(Map.prototype.delete),
    mapEach: uncurry(Map.prototype.forEach),
    mapGet: uncurry(Map.prototype.get),
    mapSet: uncurry(Map.prototype.set),
    setSize: getter(Set.prototype, "size"),
    setEach: uncurry(Set.prototype.forEach),
    setHas: uncurry(Set.prototype.has),
    setAdd: uncurry(Set.prototype.add),
    setDelete: uncurry(Set.prototype.delete),
    weakGet: uncurry(WeakMap.prototype.get),
    weakSet: uncurry(WeakMap.prototype.set),
    weakHas: uncurry(WeakMap.prototype.has),
    typedTag: getter(TypedArrayPrototype, Symbol.toStringTag),
    typedLength: getter(TypedArrayPrototype, "length"),
    typedBuffer: getter(TypedArrayPrototype, "buffer"),
    typedStart: getter(TypedArrayPrototype, "byteOffset"),
    typedBytes: getter(TypedArrayPrototype, "byteLength"),
    bufferLength: getter(ArrayBuffer.prototype, "byteLength"),
    viewBuffer: getter(DataView.prototype, "buffer"),
    viewStart: getter(DataView.prototype, "byteOffset"),
    viewBytes: getter(DataView.prototype, "byteLength"),
    toBase64: uncurry(Uint8Array.prototype.toBase64),
    numberValue: uncurry(Number.prototype.valueOf),
    stringValue: uncurry(String.prototype.valueOf),
    booleanValue: uncurry(Boolean.prototype.valueOf),
    bigValue: uncurry(BigInt.prototype.valueOf),
    symbolValue: uncurry(Symbol.prototype.valueOf),
    max: Math.max,
    Uint8Array,
    ArrayBuffer,
    Int32Array,
  };
  own.freeze(own);

  function expose(target, name, value) {
    own.define(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  }

  // A list that no setter on Array.prototype can see.
  const list = () => own.setProto([], null);

  // Backend objects and the promises of calls, known by identity (filled by prelude.js).
  const backendNames = new WeakMap();
  const calls = new WeakMap();
  // Errors made by the bridge for a limit: error -> limit code. User code cannot forge an entry.
  const limitCodes = new WeakMap();

  function limitError(code, message) {
    const error = new own.RangeError(message + " (" + code + ")");
    own.define(error, "name", { __proto__: null, value: "LimitError", configurable: true, writable: true });
    own.define(error, "code", { __proto__: null, value: code, configurable: true, writable: true, enumerable: true });
    own.weakSet(limitCodes, error, code);
    return error;
  }

  function brand(probe, value) {
    try {
      probe(value);
      return true;
    } catch {
      return false;
    }
  }

  function descends(value, ancestor) {
    // Through the prototype chain, bounded: a Proxy may answer for ever.
    let proto = value;
    for (let i = 0; i < 64; i++) {
      proto = own.protoOf(proto);
      if (proto === null) return false;
      if (proto === ancestor) return true;
    }
    return false;
  }
  const ErrorPrototype = Error.prototype;
  const isError = Error.isError;
  // Kinds, each with a function that throws for all others.
  const PROBES = own.setProto([
    "date", own.time, "map", own.mapSize, "set", own.setSize, "buffer", own.bufferLength, "view", own.viewBytes,
    "regexp", own.regexpSource, "promise", isPromise, "number", own.numberValue, "string", own.stringValue,
    "boolean", own.booleanValue, "bigint", own.bigValue, "symbol", own.symbolValue,
  ], null);

  function kindOf(value) {
    // The class of an object by brand, not by name. May throw for a revoked Proxy.
    if (own.isArray(value)) return "array";
    const proto = own.protoOf(value);
    if (proto === own.ObjectPrototype) return "object";
    if (proto === null) return own.weakHas(backendNames, value) ? "backend" : "object";
    if (proto === own.PromisePrototype || own.weakHas(calls, value)) return "promise";
    if (isError(value) || descends(value, ErrorPrototype)) return "error";
    if (own.typedTag(value) !== undefined) return "typed";
    for (let i = 0; i < PROBES.length; i += 2) if (brand(PROBES[i + 1], value)) return PROBES[i];
    if (descends(value, own.IteratorPrototype)) return "iterator";
    if (descends(value, own.AsyncIteratorPrototype)) return "asyncIterator";
    return "instance";
  }
  function isPromise(value) {
    // `then` on anything that is not a promise throws before it has an effect; on one that is, it marks it
    // as handled, which is right: the caller is about to wait for it.
    own.then(value, undefined, () => {});
  }

  function waited(value) {
    // `await` asks a promise for `constructor` and `then`. Where code took both away it gives the promise itself, so a
    // native one is waited for by our `then`; one with its own `then` (calls, subclasses) is awaited as usual.
    if (typeof value !== "object" || value === null || typeof safeGet(value, "then") === "function") return value;
    return brand(isPromise, value) ? { __proto__: null, then: (resolved, rejected) => own.then(value, resolved, rejected) } : value;
  }

  function bytesOf(value, kind) {
    // What a typed array, an ArrayBuffer or a DataView holds, as bytes over the same memory.
    switch (kind) {
      case "buffer": return new own.Uint8Array(value);
      case "view": return new own.Uint8Array(own.viewBuffer(value), own.viewStart(value), own.viewBytes(value));
      default: return new own.Uint8Array(own.typedBuffer(value), own.typedStart(value), own.typedBytes(value));
    }
  }

  function classOf(value) {
    // The name of an object's class, for people; never throws.
    const maker = safeGet(value, "constructor");
    const given = maker === undefined || maker === null ? undefined : safeGet(maker, "name");
    const name = typeof given === "string" && given !== "" && given !== "Object" ? given : safeGet(value, own.toStringTag);
    return typeof name === "string" && name !== "" ? own.slice(name, 0, 80) : "object";
  }

  function quote(text) {
    return own.stringify(own.isWellFormed(text) ? text : own.toWellFormed(text));
  }

  function safeText(value, limit) {
    // Something readable for any value at all; never throws, never calls far into user code.
    try {
      const text = typeof value === "string" ? value : inspect(value, limit);
      return text.length > limit ? own.slice(text, 0, limit) + "…" : text;
    } catch {
      return "[unreadable]";
    }
  }

  function safeGet(value, key) {
    try {
      return value[key];
    } catch {
      return undefined;
    }
  }

  function outOfMemory(error) {
    // The engine's own error: whatever read the value must not go on as if one field of it had failed.
    return typeof error === "object" && error !== null && safeGet(error, "name") === "InternalError"
      && safeGet(error, "message") === "out of memory";
  }

  function thrownText(error) {
    if (typeof error === "object" && error !== null) {
      const message = safeGet(error, "message");
      if (typeof message === "string") return own.slice(message, 0, 200);
    }
    return safeText(error, 200);
  }

  // --- console text -----------------------------------------------------------------------------------

  const INSPECT_DEPTH = 4;
  const INSPECT_ITEMS = 100;

  function inspect(value, limit) {
    const state = { __proto__: null, left: limit, open: list() };
    return inspectAny(value, 0, state);
  }

  function format(args, limit) {
    // One line of text for what was logged. A first text with %s, %d, %i, %f, %j, %o, %O, %c is filled in, as elsewhere.
    let text = "", used = 0;
    const first = args[0];
    if (typeof first === "string" && args.length > 1 && own.indexOf(first, "%") >= 0) {
      used = 1;
      const size = first.length;
      let from = 0;
      for (let at = own.indexOf(first, "%"); at >= 0 && at < size - 1 && text.length <= limit; at = own.indexOf(first, "%", at)) {
        const letter = first[at + 1];
        const filled = letter === "%" ? "%" : used < args.length ? placed(letter, args[used], limit - text.length) : undefined;
        if (filled !== undefined) {
          text += own.slice(first, from, at) + filled;
          if (letter !== "%") used++;
          from = at + 2;
        }
        at += filled === undefined ? 1 : 2;
      }
      text += own.slice(first, from, size);
    }
    for (let i = used; i < args.length && text.length <= limit; i++) {
      text += (i === 0 ? "" : " ") + inspect(args[i], limit - text.length + 1);
    }
    return text;
  }

  function placed(letter, value, room) {
    // The text for one placeholder; undefined for a letter that is none.
    const plain = typeof value === "number" || typeof value === "bigint" || typeof value === "string";
    switch (letter) {
      case "s": case "j": case "o": case "O": return inspect(value, room + 1);
      case "d": return typeof value === "bigint" ? inspect(value, room + 1) : plain ? own.String(own.Number(value)) : "NaN";
      case "i": return typeof value === "bigint" ? inspect(value, room + 1) : plain ? own.String(own.parseInt(value)) : "NaN";
      case "f": return plain ? own.String(own.parseFloat(value)) : "NaN";
      case "c": return "";
      default: return undefined;
    }
  }

  function inspectAny(value, depth, state) {
    if (state.left <= 0) return "…";
    let text;
    switch (typeof value) {
      case "string": text = depth === 0 ? value : own.stringify(own.slice(value, 0, state.left)); break;
      case "bigint": text = own.bigToString(value) + "n"; break;
      case "symbol": text = own.symbolToString(value); break;
      case "function": text = "[Function " + safeText(safeGet(value, "name") || "anonymous", 80) + "]"; break;
      case "object":
        if (value === null) text = "null";
        else {
          try {
            return inspectObject(value, depth, state);
          } catch (error) {
            text = "[Throws: " + thrownText(error) + "]";
          }
        }
        break;
      default: text = own.String(value);
    }
    state.left -= text.length;
    return text;
  }

  function errorField(error, key, limit, depth, state) {
    // Mostly text; whatever else it is, be it the error itself, is shown like a member.
    const field = safeGet(error, key);
    if (typeof field !== "string") return field === undefined ? "" : depth < INSPECT_DEPTH ? inspectAny(field, depth + 1, state) : "…";
    const text = field.length > limit ? own.slice(field, 0, limit) + "…" : field;
    state.left -= text.length;
    return text;
  }

  function inspectObject(value, depth, state) {
    for (let i = 0; i < depth; i++) if (state.open[i] === value) return "[Circular]";
    const kind = kindOf(value);
    switch (kind) {
      case "backend": return "[backend " + own.weakGet(backendNames, value) + "]";
      case "promise": {
        const entry = own.weakGet(calls, value);
        return entry === undefined ? "Promise {}" : "Promise {" + entry.name + "(…): put `await` in front}";
      }
      case "date": return own.isFiniteNumber(own.time(value)) ? own.iso(value) : "Invalid Date";
      case "error": {
        state.open[depth] = value;
        const name = errorField(value, "name", 200, depth, state), message = errorField(value, "message", 2000, depth, state);
        state.open[depth] = null;
        return message === "" ? name : name + ": " + message;
      }
      case "number": case "string": case "boolean": case "bigint": case "symbol": return "[" + kind + " object]";
      case "buffer": return "ArrayBuffer(" + own.bufferLength(value) + ")";
      case "view": return "DataView(" + own.viewBytes(value) + ")";
      case "regexp": return own.regexpToString(value);
      case "iterator": case "asyncIterator": return "[" + safeText(safeGet(value, own.toStringTag), 80) + "]";
    }
    if (depth >= INSPECT_DEPTH) return kind === "array" ? "[Array]" : "[Object]";
    state.open[depth] = value;
    const parts = list();
    let n = 0, total = 0;
    const add = (make) => {
      total++;
      if (n < INSPECT_ITEMS && state.left > 0) parts[n++] = make();
    };
    let head = "", open = "{ ", close = " }";
    if (kind === "map") {
      head = "Map(" + own.mapSize(value) + ") ";
      own.mapEach(value, (v, k) => add(() => inspectAny(k, depth + 1, state) + " => " + inspectAny(v, depth + 1, state)));
    } else if (kind === "set") {
      head = "Set(" + own.setSize(value) + ") ";
      own.setEach(value, (v) => add(() => inspectAny(v, depth + 1, state)));
    } else if (kind === "array" || kind === "typed") {
      open = "[ "; close = " ]";
      const size = kind === "typed" ? own.typedLength(value) : value.length;
      if (kind === "typed") head = own.typedTag(value) + "(" + size + ") ";
      const shown = size > INSPECT_ITEMS ? INSPECT_ITEMS : size;
      for (let i = 0; i < shown; i++) add(() => inspectAny(value[i], depth + 1, state));
      total = size;
    } else {
      const keys = own.keys(value);
      if (kind === "instance") head = classOf(value) + " ";
      for (let i = 0; i < keys.length && i < INSPECT_ITEMS; i++) {
        add(() => {
          const key = keys[i];
          let shown;
          try {
            shown = inspectAny(value[key], depth + 1, state);
          } catch (error) {
            shown = "[Throws: " + thrownText(error) + "]";
          }
          return key + ": " + shown;
        });
      }
      total = keys.length;
    }
    if (total > n) {
      const hidden = total - n;
      parts[n++] = "… " + hidden + " more";
    }
    state.open[depth] = null;
    state.left -= head.length + 4 + 2 * n;
    return n === 0 ? head + own.trim(open) + own.trim(close) : head + open + own.join(parts, ", ") + close;
  }

  return own.freeze({
    __proto__: null, own, expose, list, backendNames, calls, limitCodes, limitError, kindOf, bytesOf, classOf, quote, safeText, safeGet, waited,
    thrownText, outOfMemory, inspect, format,
  });
})
