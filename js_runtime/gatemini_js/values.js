// Values: what the bridge holds on to, and how a JavaScript value becomes text.
//
// Evaluated once, when the memory image is made, before any user code exists. Everything here works on
// references taken now, so nothing a chain does later to Object.prototype, JSON, Map or Promise can reach it:
//   - methods are uncurried (`mapGet(map, key)`), never looked up on a value;
//   - own objects and lists have no prototype, so no inherited setter or `get` can step in;
//   - no iteration protocol, no spread, no destructuring of arrays, no regular expressions;
//   - no template literals: the engine turns them into calls of String.prototype.concat.
// Above: prelude.js (the bridge) and shims.js. Below: nothing.
(function () {
  "use strict";

  const { bind, call } = Function.prototype;
  const uncurry = bind.bind(call);
  const getter = (proto, name) => uncurry(Reflect.getOwnPropertyDescriptor(proto, name).get);
  const TypedArrayPrototype = Reflect.getPrototypeOf(Uint8Array.prototype);

  const own = {
    __proto__: null,
    uncurry,
    apply: Reflect.apply,
    protoOf: Reflect.getPrototypeOf,
    ownKeys: Reflect.ownKeys,
    construct: Reflect.construct,
    define: Reflect.defineProperty,
    descriptor: Reflect.getOwnPropertyDescriptor,
    create: Object.create,
    keys: Object.keys,
    freeze: Object.freeze,
    setProto: Object.setPrototypeOf,
    hasOwn: Object.hasOwn,
    isArray: Array.isArray,
    isFiniteNumber: Number.isFinite,
    isSafeInteger: Number.isSafeInteger,
    Number,
    String,
    stringify: JSON.stringify,
    parse: JSON.parse,
    Promise,
    PromisePrototype: Promise.prototype,
    then: uncurry(Promise.prototype.then),
    Error,
    TypeError,
    RangeError,
    ReferenceError,
    Proxy,
    Map,
    WeakMap,
    Set,
    Symbol,
    species: Symbol.species,
    asyncIterator: Symbol.asyncIterator,
    toPrimitive: Symbol.toPrimitive,
    toStringTag: Symbol.toStringTag,
    iterator: Symbol.iterator,
    ObjectPrototype: Object.prototype,
    ArrayPrototype: Array.prototype,
    join: uncurry(Array.prototype.join),
    slice: uncurry(String.prototype.slice),
    indexOf: uncurry(String.prototype.indexOf),
    charCode: uncurry(String.prototype.charCodeAt),
    isWellFormed: uncurry(String.prototype.isWellFormed),
    toWellFormed: uncurry(String.prototype.toWellFormed),
    trim: uncurry(String.prototype.trim),
    bigToString: uncurry(BigInt.prototype.toString),
    symbolToString: uncurry(Symbol.prototype.toString),
    functionToString: uncurry(Function.prototype.toString),
    regexpToString: uncurry(RegExp.prototype.toString),
    now: Date.now,
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
    bufferLength: getter(ArrayBuffer.prototype, "byteLength"),
    numberValue: uncurry(Number.prototype.valueOf),
    stringValue: uncurry(String.prototype.valueOf),
    booleanValue: uncurry(Boolean.prototype.valueOf),
    floor: Math.floor,
    max: Math.max,
    Uint8Array,
    ArrayBuffer,
    Int32Array,
  };
  own.freeze(own);

  // A list that no setter on Array.prototype can see.
  const list = () => own.setProto([], null);

  // Backend objects and the promises of calls, known by identity (filled by prelude.js).
  const backendNames = new WeakMap();
  const calls = new WeakMap();
  // Errors made by the bridge for a limit: error -> limit code. User code cannot forge an entry.
  const limitCodes = new WeakMap();

  function limitError(code, message) {
    const error = new own.RangeError(message);
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

  function isError(value) {
    // Through the prototype chain, bounded: a Proxy may answer for ever.
    let proto = value;
    for (let i = 0; i < 64; i++) {
      proto = own.protoOf(proto);
      if (proto === null) return false;
      if (proto === ErrorPrototype) return true;
    }
    return false;
  }
  const ErrorPrototype = Error.prototype;
  const nativeIsError = typeof Error.isError === "function" ? Error.isError : null;

  function kindOf(value) {
    // The class of an object by brand, not by name. May throw for a revoked Proxy.
    if (own.isArray(value)) return "array";
    const proto = own.protoOf(value);
    if (proto === own.ObjectPrototype) return "object";
    if (proto === null) return own.weakHas(backendNames, value) ? "backend" : "object";
    if (proto === own.PromisePrototype || own.weakHas(calls, value)) return "promise";
    if ((nativeIsError !== null && nativeIsError(value)) || isError(value)) return "error";
    if (brand(own.time, value)) return "date";
    if (brand(own.mapSize, value)) return "map";
    if (brand(own.setSize, value)) return "set";
    if (own.typedTag(value) !== undefined) return "typed";
    if (brand(own.bufferLength, value)) return "buffer";
    if (value instanceof NativePromise && isNativePromise(value)) return "promise";
    if (brand(own.numberValue, value)) return "number";
    if (brand(own.stringValue, value)) return "string";
    if (brand(own.booleanValue, value)) return "boolean";
    return "instance";
  }
  const NativePromise = Promise;
  function isNativePromise(value) {
    // `then` on anything that is not a promise throws before it has an effect; on one that is, it marks it
    // as handled, which is right: the caller is about to wait for it.
    return brand((v) => own.then(v, undefined, () => {}), value);
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

  function thrownText(error) {
    if (typeof error === "object" && error !== null) {
      const message = safeGet(error, "message");
      if (typeof message === "string") return own.slice(message, 0, 200);
    }
    return safeText(error, 200);
  }

  // --- conversions, remembered for the one note that lists them ---------------------------------------

  const CONVERTED = {
    __proto__: null,
    bigint: "BigInt became a decimal string",
    date: "Date became an ISO string",
    map: "Map became an object or a list of entries",
    set: "Set became an array",
    error: "Error became {name, message}",
    typed: "typed array became an array",
    longTyped: "typed array over the item limit became {type, length}",
    buffer: "ArrayBuffer became {type, length}",
    nan: "NaN or Infinity became null",
    function: "function was dropped",
    symbol: "symbol was dropped",
    hole: "undefined in an array became null",
    circular: 'a cycle became "[Circular]"',
    throws: 'a getter, toJSON or Proxy that threw became "[Throws: …]"',
    deep: 'nesting beyond the depth limit became "[Too deep]"',
    backend: "backend object became its name",
    surrogate: "half a surrogate pair became U+FFFD",
  };

  function remember(state, kind, frame, key) {
    let seen = state.converted[kind];
    if (seen === undefined) {
      seen = state.converted[kind] = { __proto__: null, count: 0, first: pathOf(frame, key) };
    }
    seen.count++;
  }

  function pathOf(frame, key) {
    const parts = list();
    let n = 0;
    if (key !== undefined) parts[n++] = own.slice(own.String(key), 0, 40);
    for (let f = frame; f !== null && n < 6; f = f.up) {
      if (f.at !== undefined) parts[n++] = own.slice(own.String(f.at), 0, 40);
    }
    let text = "";
    for (let i = n - 1; i >= 0; i--) text += text === "" ? parts[i] : "." + parts[i];
    return text;
  }

  function conversionNote(converted) {
    let text = "";
    const kinds = own.keys(converted);
    for (let i = 0; i < kinds.length; i++) {
      const { count, first } = converted[kinds[i]];
      const where = first === "" ? "" : count > 1 ? (" (" + first + " and " + (count - 1) + " more)") : " (" + first + ")";
      text += (text === "" ? "" : "; ") + CONVERTED[kinds[i]] + where;
    }
    return text;
  }

  // --- JSON -------------------------------------------------------------------------------------------

  function push(state, frame, source, keys, values, at) {
    state.depth++;
    own.setAdd(state.open, source); // what is open now is what a cycle can lead back to
    const isList = keys === null;
    return {
      __proto__: null, up: frame, source, keys, values, at, next: 0, empty: true,
      size: isList ? values.length : keys.length, close: isList ? "]" : "}",
    };
  }

  function pop(state, frame) {
    own.setDelete(state.open, frame.source);
    state.depth--;
    return frame.up;
  }

  // What `open` found: a finished text, or a frame to walk. One object, reused: it is read at once.
  const opened = { __proto__: null, text: null, frame: null };
  function asText(text) {
    opened.text = text;
    opened.frame = null;
  }
  function asFrame(frame) {
    opened.text = frame.close === "]" ? "[" : "{";
    opened.frame = frame;
  }

  function openMap(state, frame, value, key) {
    const keys = list(), values = list(), entries = list();
    let n = 0, plain = true;
    own.mapEach(value, (v, k) => {
      if (typeof k !== "string") plain = false;
      keys[n] = k;
      values[n] = v;
      const entry = list();
      entry[0] = k;
      entry[1] = v;
      entries[n++] = entry;
    });
    remember(state, "map", frame, key);
    asFrame(push(state, frame, value, plain ? keys : null, plain ? values : entries, key));
  }

  function openSet(state, frame, value, key) {
    const values = list();
    let n = 0;
    own.setEach(value, (v) => { values[n++] = v; });
    remember(state, "set", frame, key);
    asFrame(push(state, frame, value, null, values, key));
  }

  function openError(state, frame, value, key) {
    const keys = list(), values = list();
    let n = 0;
    const add = (k, v) => { if (v !== undefined) { keys[n] = k; values[n++] = v; } };
    add("name", safeText(safeGet(value, "name"), 200));
    add("message", safeText(safeGet(value, "message"), 10000));
    if (own.hasOwn(value, "tool")) {
      add("tool", safeGet(value, "tool"));
      add("code", safeGet(value, "code"));
      add("structured", safeGet(value, "structured"));
    }
    remember(state, "error", frame, key);
    asFrame(push(state, frame, value, keys, values, key));
  }

  function openTyped(state, frame, value, key) {
    const length = own.typedLength(value);
    if (length > state.typedItems) {
      remember(state, "longTyped", frame, key);
      return asText('{"type":' + quote(own.typedTag(value)) + ',"length":' + length + "}");
    }
    const values = list();
    for (let i = 0; i < length; i++) values[i] = value[i];
    remember(state, "typed", frame, key);
    asFrame(push(state, frame, value, null, values, key));
  }

  function openPromise(state, frame, value, key) {
    const settled = own.mapGet(state.settled, value);
    if (settled !== undefined) return openAny(state, frame, settled.value, key);
    state.promises[state.promises.length] = value;
    asText("null");
  }

  function openInstance(state, frame, value, key, kind) {
    const toJSON = value.toJSON;
    // Whoever overwrites Object.prototype.toJSON has not asked for every object to be changed.
    if (typeof toJSON === "function" && toJSON !== own.ObjectPrototype.toJSON && !own.setHas(state.viaToJSON, value)) {
      own.setAdd(state.viaToJSON, value);
      return openAny(state, frame, own.apply(toJSON, value, [own.String(key ?? "")]), key);
    }
    asFrame(push(state, frame, value, own.keys(value), null, key));
  }

  function openObject(state, frame, value, key) {
    if (own.setHas(state.open, value)) {
      remember(state, "circular", frame, key);
      return asText('"[Circular]"');
    }
    if (state.depth >= state.maxDepth) {
      remember(state, "deep", frame, key);
      return asText('"[Too deep]"');
    }
    const kind = kindOf(value);
    switch (kind) {
      case "array": {
        return asFrame(push(state, frame, value, null, value, key));
      }
      case "object": case "instance": return openInstance(state, frame, value, key, kind);
      case "backend":
        remember(state, "backend", frame, key);
        return asText(quote("[backend " + own.weakGet(backendNames, value) + "]"));
      case "promise": return openPromise(state, frame, value, key);
      case "map": return openMap(state, frame, value, key);
      case "set": return openSet(state, frame, value, key);
      case "error": return openError(state, frame, value, key);
      case "typed": return openTyped(state, frame, value, key);
      case "date": {
        remember(state, "date", frame, key);
        return asText(own.isFiniteNumber(own.time(value)) ? quote(own.iso(value)) : "null");
      }
      case "buffer":
        remember(state, "buffer", frame, key);
        return asText('{"type":"ArrayBuffer","length":' + own.bufferLength(value) + "}");
      case "number": return openAny(state, frame, own.numberValue(value), key);
      case "string": return openAny(state, frame, own.stringValue(value), key);
      default: return asText(own.booleanValue(value) ? "true" : "false");
    }
  }

  function openAny(state, frame, value, key) {
    switch (typeof value) {
      case "string":
        if (own.isWellFormed(value)) return asText(own.stringify(value));
        remember(state, "surrogate", frame, key);
        return asText(quote(value));
      case "number":
        if (own.isFiniteNumber(value)) return asText("" + value);
        remember(state, "nan", frame, key);
        return asText("null");
      case "boolean": return asText(value ? "true" : "false");
      case "bigint":
        remember(state, "bigint", frame, key);
        return asText('"' + own.bigToString(value) + '"');
      case "object": return value === null ? asText("null") : openObject(state, frame, value, key);
      case "undefined": return asText(undefined);
      default:
        remember(state, typeof value, frame, key);
        return asText(undefined);
    }
  }

  function openSafely(state, frame, value, key) {
    try {
      openAny(state, frame, value, key);
    } catch (error) {
      if (own.weakHas(limitCodes, error)) throw error;
      remember(state, "throws", frame, key);
      asText(quote("[Throws: " + thrownText(error) + "]"));
    }
  }

  const keyTexts = { __proto__: null, n: 0, map: own.create(null) };
  function keyText(key) {
    let text = keyTexts.map[key];
    if (text === undefined) {
      text = quote(key) + ":";
      if (keyTexts.n++ < 1000) keyTexts.map[key] = text;
    }
    return text;
  }

  function plainText(root, options, refs) {
    // The common case, by the engine's own JSON.stringify: a tree of plain objects and arrays in which nothing needs
    // converting. undefined when anything else turns up (then `encode` walks it by hand). A cycle is met as depth.
    if (own.hasOwn(own.ObjectPrototype, "toJSON") || own.hasOwn(own.ArrayPrototype, "toJSON")) return undefined;
    let left = options.bytes;
    for (let todo = { __proto__: null, value: root, depth: 1, rest: null }; todo !== null; ) {
      const object = todo.value, depth = todo.depth;
      todo = todo.rest;
      const isList = own.isArray(object);
      if (own.protoOf(object) !== (isList ? own.ArrayPrototype : own.ObjectPrototype)) return undefined;
      if (depth > options.depth) return undefined;
      const keys = isList ? null : own.keys(object);
      const size = isList ? object.length : keys.length;
      if ((left -= size) < 0) return undefined;
      for (let i = 0; i < size; i++) {
        const value = isList ? object[i] : object[keys[i]];
        switch (typeof value) {
          case "string":
            if (refs !== null && !isList && keys[i] === "ref") refs[refs.length] = value;
            break;
          case "number":
            if (value - value !== 0) return undefined; // NaN and the infinities
            break;
          case "boolean": break;
          case "object":
            if (value !== null) todo = { __proto__: null, value, depth: depth + 1, rest: todo };
            break;
          case "undefined":
            if (isList) return undefined;
            break;
          default: return undefined;
        }
      }
    }
    const text = own.stringify(root);
    return own.indexOf(text, "\\ud") < 0 ? text : undefined; // perhaps half a surrogate pair
  }

  function tryPlainText(root, options, refs) {
    try {
      return plainText(root, options, refs);
    } catch {
      return undefined; // a getter or a Proxy: the careful way will say so
    }
  }

  const NO_ITEMS = own.freeze(list());

  function newState(options, settled) {
    return {
      __proto__: null, depth: 0, open: new own.Set(), viaToJSON: new own.Set(), promises: list(),
      converted: own.create(null), refs: list(), settled, maxDepth: options.depth,
      typedItems: options.typedItems, maxText: options.bytes,
    };
  }

  function encode(root, options, settled, name) {
    // JSON text of any value, without recursion. Promises found are collected, not waited for: the caller
    // waits and encodes again with what they became. `text` is undefined where JSON has nothing to say.
    if (typeof root === "object" && root !== null) {
      const refs = options.wantsRefs ? list() : NO_ITEMS;
      const text = tryPlainText(root, options, options.wantsRefs ? refs : null);
      if (text !== undefined) {
        if (text.length > options.bytes) throw limitError(options.code, options.what + (name === "" ? "" : " " + name) + " is larger than " + options.bytes + " bytes");
        return { __proto__: null, text, converted: null, promises: NO_ITEMS, refs };
      }
    }
    const state = newState(options, settled);
    let parts = list(), n = 0, chars = 0, frame = null;
    openSafely(state, frame, root, undefined);
    const result = { __proto__: null, text: opened.text, converted: state.converted, promises: state.promises, refs: state.refs };
    if (opened.frame === null) return result;
    parts[n++] = opened.text;
    frame = opened.frame;
    while (frame !== null) {
      if (frame.next >= frame.size) {
        parts[n++] = frame.close;
        frame = pop(state, frame);
        continue;
      }
      const index = frame.next++;
      const key = frame.keys === null ? index : frame.keys[index];
      let value;
      if (frame.values !== null && frame.values !== frame.source) value = frame.values[index];
      else {
        try {
          value = frame.source[key];
        } catch (error) {
          remember(state, "throws", frame, key);
          value = "[Throws: " + thrownText(error) + "]";
        }
      }
      openSafely(state, frame, value, key);
      let text = opened.text;
      if (text === undefined) {
        if (frame.keys !== null) continue;
        if (value === undefined) remember(state, "hole", frame, key);
        text = "null";
      }
      if (key === "ref" && typeof value === "string") state.refs[state.refs.length] = value;
      const head = frame.keys === null ? "" : keyText(key);
      parts[n++] = frame.empty ? head + text : "," + head + text;
      frame.empty = false;
      chars += head.length + text.length + 1;
      if (chars > state.maxText) throw limitError(options.code, options.what + (name === "" ? "" : " " + name) + " is larger than " + state.maxText + " bytes");
      if (opened.frame !== null) frame = opened.frame;
    }
    result.text = own.join(parts, "");
    return result;
  }

  // --- console text -----------------------------------------------------------------------------------

  const INSPECT_DEPTH = 4;
  const INSPECT_ITEMS = 100;

  function inspect(value, limit) {
    const state = { __proto__: null, left: limit, open: list() };
    return inspectAny(value, 0, state);
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
        const name = safeText(safeGet(value, "name"), 200), message = safeText(safeGet(value, "message"), 2000);
        return message === "" ? name : name + ": " + message;
      }
      case "number": case "string": case "boolean": return "[" + kind + " object]";
      case "buffer": return "ArrayBuffer(" + own.bufferLength(value) + ")";
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
      if (kind === "instance") {
        const maker = safeGet(value, "constructor");
        const name = maker === undefined || maker === null ? "" : safeGet(maker, "name");
        if (typeof name === "string" && name !== "") head = own.slice(name, 0, 80) + " ";
      }
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
    __proto__: null, own, list, backendNames, calls, limitCodes, limitError, kindOf, quote, safeText, safeGet,
    encode, conversionNote, inspect,
  });
})
