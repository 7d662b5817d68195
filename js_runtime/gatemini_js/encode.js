// JSON text of any value at all, without recursion and without trusting the value.
//
// `encode` gives the text, what had to be converted on the way, the promises it met and the long typed arrays: the caller
// waits for the former, keeps the latter, and encodes again. A plain tree goes through the engine's own JSON.stringify; everything else is walked by hand.
(function (values) {
  "use strict";
  const {
    own, list, backendNames, limitCodes, limitError, kindOf, bytesOf, classOf, quote, safeText, safeGet, thrownText,
    outOfMemory,
  } = values;
  const NO_ITEMS = own.freeze(list());
  const MOST_PARTS = 10000; // pieces of text that are kept apart
  const MOST_DRAWN = 10000; // items taken from an iterator that is returned: it may never end

  // --- conversions, remembered for the one note that lists them ---------------------------------------

  const CONVERTED = {
    __proto__: null,
    bigint: "BigInt became a decimal string",
    date: "Date became an ISO string",
    map: "Map became an object or a list of entries",
    set: "Set became an array",
    error: "Error became {name, message}",
    typed: "typed array became an array",
    longTyped: "typed array over the item limit became {type, length, ref}: results.load(ref) gives the items, results.base64(ref) the bytes",
    lostTyped: "typed array over the item limit became {type, length}",
    buffer: "ArrayBuffer or DataView became an array of its bytes",
    badDate: "invalid Date became null",
    regexp: "RegExp became its text",
    iterator: "iterator became an array of what it gave",
    endless: "iterator became an array of its first " + MOST_DRAWN + " items",
    asyncIterator: "async iterator became its name: collect what it gives with `for await`",
    nan: "NaN or Infinity became null",
    function: "function was dropped",
    symbol: "symbol was dropped",
    hole: "undefined in an array became null",
    circular: 'a cycle became "[Circular]"',
    symbolObject: "symbol became its text",
    throws: 'a getter, toJSON or Proxy that threw became "[Throws: …]"',
    deep: 'nesting beyond the depth limit became "[Too deep]"',
    backend: "backend object became its name",
    surrogate: "half a surrogate pair became U+FFFD",
    surrogateKey: "half a surrogate pair in a key became U+FFFD, with a number where two keys became one",
    negativeZero: "-0 became 0",
    undefined: "a field that is undefined was left out",
  };

  function remember(state, kind, frame, key) {
    let seen = state.converted[kind];
    if (seen === undefined) {
      seen = state.converted[kind] = { __proto__: null, count: 0, first: pathOf(frame, key) };
    }
    seen.count++;
  }

  const PLACES_ROOM = 1 << 18; // characters of all places together: a BigInt beyond them stays text

  function rememberBigInt(state, frame, key) {
    // The host makes an integer of it where one is wanted, so it has to know each place: a JSON array of keys and indexes.
    remember(state, "bigint", frame, key);
    const seen = state.converted.bigint;
    if (seen.places === undefined) {
      seen.places = list();
      seen.room = PLACES_ROOM;
    }
    if (seen.room <= 0) return;
    let text = "", at = key;
    for (let f = frame; f !== null; f = f.up) {
      text = (typeof at === "number" ? "" + at : quote(own.String(at))) + (text === "" ? "" : "," + text);
      at = f.at;
    }
    seen.places[seen.places.length] = "[" + text + "]";
    seen.room -= text.length + 3;
  }

  function pathOf(frame, key, anyItem = false) {
    // As code would write it: `rows[3].n`; with `anyItem` the same for all items of an array, `rows[].n`.
    let text = "";
    for (let f = frame, at = key, n = 0; n < 6; f = f.up, n++) {
      if (at !== undefined) {
        if (f !== null && f.keys === null) text = (anyItem ? "[]" : "[" + at + "]") + behind(text);
        else text = own.slice(own.String(at), 0, 40) + behind(text);
      }
      if (f === null) break;
      at = f.at;
    }
    return text;
  }

  function behind(text) {
    return text === "" || text[0] === "[" ? text : "." + text;
  }

  const MOST_LOST = 10; // paths named in the note on members that are undefined
  const MOST_LOST_VALUES = 20000; // values looked at for them
  function lose(converted, path) {
    const seen = converted.lost ??= { __proto__: null, counts: own.create(null), paths: 0, more: 0 };
    if (seen.counts[path] !== undefined) seen.counts[path]++;
    else if (seen.paths < MOST_LOST) {
      seen.counts[path] = 1;
      seen.paths++;
    } else seen.more++;
  }

  function lostText({ counts, more }) {
    let text = "";
    const paths = own.keys(counts);
    for (let i = 0; i < paths.length; i++) {
      const n = counts[paths[i]];
      text += (text === "" ? "" : ", ") + paths[i] + (n > 1 ? " (" + n + " times)" : "");
    }
    return "members that are undefined were left out: " + text + (more > 0 ? " and more" : "");
  }

  function lostMembers(root) {
    // What plainText left out; only plain objects and arrays come here.
    const converted = own.create(null);
    let left = MOST_LOST_VALUES, todo = { __proto__: null, value: root, path: "", rest: null };
    while (todo !== null && left > 0) {
      const { value, path } = todo;
      todo = todo.rest;
      const isList = own.isArray(value), keys = isList ? null : ownKeysOf(value);
      const size = isList ? value.length : keys.length;
      left -= size;
      for (let i = 0; i < size && !isList; i++) {
        if (value[keys[i]] === undefined) lose(converted, path + (path === "" ? "" : ".") + own.slice(keys[i], 0, 40));
      }
      for (let i = size - 1; i >= 0; i--) { // the last one first, since what is put on top is looked at first
        const inner = value[isList ? i : keys[i]];
        if (typeof inner !== "object" || inner === null) continue;
        const at = isList ? path + "[]" : path + (path === "" ? "" : ".") + own.slice(keys[i], 0, 40);
        todo = { __proto__: null, value: inner, path: at, rest: todo };
      }
    }
    return converted;
  }

  function conversionNote(converted) {
    let text = "";
    const kinds = own.keys(converted);
    for (let i = 0; i < kinds.length; i++) {
      if (kinds[i] === "lost") {
        text += (text === "" ? "" : "; ") + lostText(converted.lost);
        continue;
      }
      const { count, first } = converted[kinds[i]];
      const where = first !== "" && count > 1 ? first + " and " + (count - 1) + " more" : first;
      text += (text === "" ? "" : "; ") + (CONVERTED[kinds[i]] ?? kinds[i]) + (where === "" ? "" : " (" + where + ")");
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
      size: isList ? values.length : keys.length, close: isList ? "]" : "}", taken: undefined,
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
    let plain = true;
    own.mapEach(value, (v, k) => {
      plain = plain && typeof k === "string";
      const entry = list();
      entry[0] = k;
      entry[1] = v;
      keys[keys.length] = k;
      values[values.length] = v;
      entries[entries.length] = entry;
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

  function openTyped(state, frame, value, key, kind) {
    // Buffers and views are met as the bytes they hold.
    const items = kind === "typed" ? value : bytesOf(value, kind);
    const length = own.typedLength(items);
    if (length > state.options.typedItems) return openLong(state, frame, value, key, kind, length);
    const values = list();
    for (let i = 0; i < length; i++) values[i] = items[i];
    remember(state, kind === "typed" ? kind : "buffer", frame, key);
    asFrame(push(state, frame, value, null, values, key));
  }

  function openLong(state, frame, value, key, kind, length) {
    // Its data goes to the host, which gives a handle; the caller sees to that, then encodes again. A tool must not get
    // something else than it was given: with arguments it is an error.
    if (state.options.deep !== null) throw sizeError(state.options, state.name);
    const kept = own.mapGet(state.settled, value);
    if (kept === undefined) state.long[state.long.length] = { __proto__: null, value, kind };
    const ref = kept === undefined ? undefined : kept.value;
    remember(state, ref === undefined ? "lostTyped" : "longTyped", frame, key);
    if (ref !== undefined) state.refs[state.refs.length] = ref;
    const type = kind === "typed" ? own.typedTag(value) : kind === "view" ? "DataView" : "ArrayBuffer";
    asText('{"type":' + quote(type) + ',"length":' + length + (ref === undefined ? "}" : ',"ref":' + quote(ref) + "}"));
  }

  const drawn = new own.WeakMap(); // iterator -> what it gave: a value may be encoded more than once
  function openIterator(state, frame, value, key) {
    let found = own.weakGet(drawn, value);
    if (found === undefined) {
      found = { __proto__: null, items: list(), ended: false };
      own.weakSet(drawn, value, found);
      const next = value.next;
      while (found.items.length < MOST_DRAWN) {
        const step = own.apply(next, value, []);
        if (step.done) {
          found.ended = true;
          break;
        }
        found.items[found.items.length] = step.value;
      }
    }
    remember(state, found.ended ? "iterator" : "endless", frame, key);
    asFrame(push(state, frame, value, null, found.items, key));
  }

  function openPromise(state, frame, value, key) {
    const settled = own.mapGet(state.settled, value);
    if (settled !== undefined) return openAny(state, frame, settled.value, key);
    state.promises[state.promises.length] = value;
    asText("null");
  }

  function openInstance(state, frame, value, key, kind) {
    const toJSON = value.toJSON;
    // An overwritten Object.prototype.toJSON does not apply: it would change every object.
    if (typeof toJSON === "function" && toJSON !== own.ObjectPrototype.toJSON && !own.setHas(state.viaToJSON, value)) {
      own.setAdd(state.viaToJSON, value);
      return openAny(state, frame, own.apply(toJSON, value, [own.String(key ?? "")]), key);
    }
    const keys = own.keys(value);
    if (kind === "instance" && keys.length === 0) {
      // A class with private state only, a WeakMap: say what it was, or the reader takes it for an empty object.
      const name = classOf(value);
      remember(state, (name === "object" ? "an object" : "an object of class " + name) + " has no readable fields and became {}", frame, key);
    }
    asFrame(push(state, frame, value, keys, null, key));
  }

  function openObject(state, frame, value, key) {
    if (own.setHas(state.open, value)) {
      remember(state, "circular", frame, key);
      return asText('"[Circular]"');
    }
    if (state.depth >= state.options.depth) {
      if (state.options.deep !== null) throw depthError(state.options, state.name);
      remember(state, "deep", frame, key);
      return asText('"[Too deep]"');
    }
    const kind = kindOf(value);
    switch (kind) {
      case "array": {
        const items = push(state, frame, value, null, value, key);
        // What is longer than its text may be is not walked first: a list may claim four billion items.
        if (items.size * 2 > state.options.bytes) throw sizeError(state.options, state.name);
        return asFrame(items);
      }
      case "object": case "instance": return openInstance(state, frame, value, key, kind);
      case "backend":
        remember(state, "backend", frame, key);
        return asText(quote("[backend " + own.weakGet(backendNames, value) + "]"));
      case "promise": return openPromise(state, frame, value, key);
      case "map": return openMap(state, frame, value, key);
      case "set": return openSet(state, frame, value, key);
      case "error": return openError(state, frame, value, key);
      case "typed": case "buffer": case "view": return openTyped(state, frame, value, key, kind);
      case "iterator": return openIterator(state, frame, value, key);
      case "asyncIterator":
        remember(state, kind, frame, key);
        return asText(quote("[" + safeText(safeGet(value, own.toStringTag), 80) + "]"));
      case "regexp":
        remember(state, kind, frame, key);
        return asText(quote(own.regexpToString(value)));
      case "date": {
        const valid = own.isFiniteNumber(own.time(value));
        remember(state, valid ? kind : "badDate", frame, key);
        return asText(valid ? quote(own.iso(value)) : "null");
      }
      case "bigint": return openAny(state, frame, own.bigValue(value), key);
      case "symbol":
        remember(state, "symbolObject", frame, key);
        return asText(quote(own.symbolToString(own.symbolValue(value))));
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
        if (own.isFiniteNumber(value)) {
          if (value === 0 && state.options.exact && 1 / value < 0) remember(state, "negativeZero", frame, key);
          return asText("" + value);
        }
        remember(state, "nan", frame, key);
        return asText("null");
      case "boolean": return asText(value ? "true" : "false");
      case "bigint":
        rememberBigInt(state, frame, key);
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
      if (own.weakHas(limitCodes, error) || outOfMemory(error)) throw error;
      remember(state, "throws", frame, key);
      asText(quote("[Throws: " + thrownText(error) + "]"));
    }
  }

  const MOST_KEY_TEXTS = 1000;
  const keyTexts = own.create(null);
  let keyCount = 0;
  function memberHead(state, frame, key) {
    let text = keyTexts[key];
    if (text !== undefined) return text;
    if (own.isWellFormed(key)) {
      text = quote(key) + ":";
      if (keyCount++ < MOST_KEY_TEXTS) keyTexts[key] = text;
      return text;
    }
    // Two keys may become one: then the later one gets a number, and no member is lost.
    remember(state, "surrogateKey", frame, key);
    if (frame.taken === undefined) {
      frame.taken = new own.Set();
      for (let i = 0; i < frame.size; i++) own.setAdd(frame.taken, frame.keys[i]);
    }
    const plain = own.toWellFormed(key);
    let name = plain;
    for (let n = 2; own.setHas(frame.taken, name); n++) name = plain + " (" + n + ")";
    own.setAdd(frame.taken, name);
    return quote(name) + ":";
  }

  const { protoOf, keys: ownKeysOf, ObjectPrototype, ArrayPrototype } = own;
  let plainLost = false; // whether the last one met a member that is undefined
  function plainText(root, options, refs) {
    // The common case, by the engine's own JSON.stringify: a tree of plain objects and arrays in which nothing needs
    // converting. undefined when anything else turns up (then `encode` walks it by hand). A cycle is met as depth.
    if (ObjectPrototype.toJSON !== undefined || ArrayPrototype.toJSON !== undefined) return undefined;
    let left = options.bytes, object = root, depth = 1, todo = null;
    plainLost = false;
    for (;;) {
      const proto = protoOf(object);
      let isList = false;
      if (proto !== ObjectPrototype) {
        if (proto !== ArrayPrototype || !own.isArray(object)) return undefined;
        isList = true;
      }
      if (depth > options.depth) return undefined;
      const keys = isList ? null : ownKeysOf(object);
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
            if (value === 0 && options.exact && 1 / value < 0) return undefined;
            break;
          case "boolean": break;
          case "object":
            if (value !== null) todo = { __proto__: null, value, depth: depth + 1, rest: todo };
            break;
          case "undefined":
            if (isList || options.exact) return undefined;
            plainLost = true;
            break;
          default: return undefined;
        }
      }
      if (todo === null) break;
      object = todo.value;
      depth = todo.depth;
      todo = todo.rest;
    }
    const text = own.stringify(root);
    return own.indexOf(text, "\\ud") < 0 ? text : undefined; // perhaps half a surrogate pair
  }

  function sizeError(options, name) {
    const { code, what, bytes } = options;
    const verb = name === "" ? " is" : " " + name + " are";
    return limitError(code, what + verb + " larger than " + bytes + " bytes");
  }

  function depthError(options, name) {
    return limitError(options.deep, options.what + " " + name + " are nested deeper than " + options.depth + " levels");
  }

  function newState(options, settled, name) {
    return {
      __proto__: null, text: undefined, depth: 0, open: new own.Set(), viaToJSON: new own.Set(), promises: list(),
      long: list(), converted: own.create(null), refs: list(), settled, options, name,
    };
  }

  function encode(root, options, settled, name) {
    // JSON text of any value, without recursion. Promises found are collected, not waited for: the caller
    // waits and encodes again with what they became. `text` is undefined where JSON has nothing to say.
    if (typeof root === "object" && root !== null) {
      const refs = options.wantsRefs ? list() : NO_ITEMS;
      let text;
      try {
        text = plainText(root, options, options.wantsRefs ? refs : null);
      } catch { /* a getter or a Proxy: walking by hand says so */ }
      if (text !== undefined) {
        if (text.length > options.bytes) throw sizeError(options, name);
        const converted = plainLost && options.names ? lostMembers(root) : null;
        return { __proto__: null, text, converted, promises: NO_ITEMS, long: NO_ITEMS, refs };
      }
    }
    const state = newState(options, settled, name);
    let parts = list(), n = 0, joined = "", chars = 0, frame = null;
    openSafely(state, frame, root, undefined);
    if (opened.frame === null) {
      state.text = opened.text;
      return state;
    }
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
          if (outOfMemory(error)) throw error;
          remember(state, "throws", frame, key);
          value = "[Throws: " + thrownText(error) + "]";
        }
      }
      openSafely(state, frame, value, key);
      let text = opened.text;
      if (text === undefined) {
        if (frame.keys !== null) {
          if (value === undefined && state.options.exact) remember(state, "undefined", frame, key);
          if (value === undefined && state.options.names) lose(state.converted, pathOf(frame, key, true));
          continue;
        }
        if (value === undefined) remember(state, "hole", frame, key);
        text = "null";
      }
      if (key === "ref" && typeof value === "string") state.refs[state.refs.length] = value;
      const head = frame.keys === null ? "" : memberHead(state, frame, key);
      parts[n++] = frame.empty ? head + text : "," + head + text;
      frame.empty = false;
      chars += head.length + text.length + 1;
      if (chars > state.options.bytes) throw sizeError(options, name);
      if (n >= MOST_PARTS) { // each takes far more memory than its few characters
        joined += own.join(parts, "");
        parts = list();
        n = 0;
      }
      if (opened.frame !== null) frame = opened.frame;
    }
    state.text = joined + own.join(parts, "");
    return state;
  }

  return own.freeze({ __proto__: null, encode, conversionNote });
})
