// The bridge: the guest's half of every message.
//
// A tool call only puts a line into the outbox and returns a promise. The host runs the guest until it is idle,
// takes the whole outbox (`collect`), and gives back a batch of replies (`deliver`). The host calls the functions
// returned at the end; nothing here is reachable from user code except the globals that `begin` defines.
(function (values, encoding, shims, regexp, locale, timers, ToolError, backends, terminal, protocol) {
  "use strict";
  const { own, expose, list, calls, limitCodes, limitError, kindOf, bytesOf, quote, safeText, safeGet, waited } = values;
  const { encode, conversionNote } = encoding;
  const { define, apply } = own;
  const LIMIT = protocol.limits;

  const noteList = list();
  const notesSeen = own.create(null);
  let limits = null;

  function note(text) {
    if (notesSeen[text] === undefined && noteList.length < 50) {
      notesSeen[text] = true;
      noteList[noteList.length] = text;
    }
  }

  // --- calls ------------------------------------------------------------------------------------------------

  // One entry per call: {id, name, stack, resolve, reject, awaited}, found by promise (calls), by id (pending), in
  // order of issue (issued).
  const pending = new own.Map();
  let issued = list();
  let outbox = list();
  let nextId = 1, toolCalls = 0, otherCalls = 0;

  // Promises of calls have a prototype of their own, so that `await` goes through `then` below, which marks the call as
  // awaited. The prototype of that prototype is a Proxy, reached only for members that no promise has: the commonest
  // slip is to read a member of the awaited value on the promise, which would silently give undefined.
  const CallPromisePrototype = own.create(new own.Proxy(own.create(own.PromisePrototype), {
    __proto__: null,
    get(target, key, promise) {
      if (key in target) return target[key];
      if (key === own.iterator || key === own.asyncIterator) throw forgotten(promise, "looped over or spread");
      if (typeof key === "string") throw forgotten(promise, "read as ." + key);
      return undefined;
    },
  }));
  function CallPromise() {
    throw new own.TypeError("calls make their own promises");
  }
  CallPromise.prototype = CallPromisePrototype;
  const fix = (target, key, value) => define(target, key, { __proto__: null, value });
  fix(CallPromise, own.species, own.Promise);
  fix(CallPromisePrototype, "constructor", CallPromise);
  fix(CallPromisePrototype, "then", function then(resolved, rejected) {
    const entry = own.weakGet(calls, this);
    if (entry !== undefined) {
      entry.awaited = true;
      entry.waiters++;
    }
    return own.then(this, resolved, rejected);
  });
  fix(CallPromisePrototype, own.toPrimitive, function () { throw forgotten(this, "used as text or number"); });
  fix(CallPromisePrototype, "toJSON", function () { throw forgotten(this, "given to JSON.stringify"); });
  // After a race, a call that only reads and that the code no longer waits for at its end is needless: it has lost.
  let races = false;
  function watchRaces(name) {
    const combine = own[name];
    const method = function (values) {
      races = true;
      for (let i = 0; own.isArray(values) && i < values.length; i++) {
        const entry = typeof values[i] === "object" && values[i] !== null ? own.weakGet(calls, values[i]) : undefined;
        if (entry !== undefined) entry.races++;
      }
      return combine(this, values);
    };
    define(method, "name", { __proto__: null, value: name });
    define(own.Promise, name, { __proto__: null, writable: true, configurable: true, value: method });
  }
  watchRaces("race");
  watchRaces("any");
  own.freeze(CallPromise);
  own.freeze(CallPromisePrototype);

  function forgotten(promise, how) {
    // Placed where the call was made: that is where the `await` goes.
    const entry = own.weakGet(calls, promise), name = entry?.name ?? "the call";
    const error = new own.TypeError(name + "(…) is a promise here and was " + how + ": put `await` in front of the call");
    if (entry !== undefined) placeStack(error, entry.stack);
    return error;
  }

  function stackAbove(callee) {
    // The place in the user's code that calls `callee`; "" where that code has broken Error.
    try {
      const holder = { __proto__: null, stack: "" };
      own.captureStackTrace(holder, callee);
      return typeof holder.stack === "string" ? holder.stack : "";
    } catch {
      return "";
    }
  }

  const noneSettled = new own.Map();
  let argumentOptions = null, keptOptions = null, valueOptions = null;
  function setOptions() {
    const forArguments = (exact) => ({
      __proto__: null, wantsRefs: false, depth: limits.depth, typedItems: limits.argument_bytes,
      bytes: limits.argument_bytes, code: LIMIT.arguments, what: "the arguments of", deep: LIMIT.depth, exact,
    });
    argumentOptions = forArguments(false);
    // A kept value must come back as it was, so each change that JSON makes is noted, also those of no interest elsewhere.
    keptOptions = forArguments(true);
    valueOptions = {
      __proto__: null, wantsRefs: true, depth: limits.depth, typedItems: protocol.typed_items,
      bytes: limits.value_bytes, code: LIMIT.value, what: "the returned value", deep: null, exact: false, names: true,
    };
  }

  function parsedObject(text) {
    // A JSON string given where an object belongs: taken when it is one.
    try {
      const value = own.parse(text);
      return typeof value === "object" && value !== null && !own.isArray(value) ? value : undefined;
    } catch {
      return undefined;
    }
  }

  function isPlainArguments(value) {
    if (typeof value !== "object" || value === null) return false;
    const kind = kindOf(value);
    return kind === "object" || kind === "instance" || kind === "map";
  }

  function prepared(kind, args, name) {
    // What travels as `arguments`: the one object, or the raw list so that the host can answer with the signature.
    if (kind === "resource") return args[0];
    if (kind !== "results" && args.length === 1) {
      const only = args[0];
      if (isPlainArguments(only)) return only;
      if (typeof only === "string") {
        const object = parsedObject(only);
        if (object !== undefined) {
          note(name + " was given a JSON string; its object was taken");
          return object;
        }
      }
      if (only === undefined) return list0;
    }
    if (kind === "results") {
      let size = args.length; // `results.load(h, undefined)` gives one argument
      while (size > 1 && args[size - 1] === undefined) size--;
      args.length = size;
    }
    return args;
  }
  const list0 = [];

  function claim(kind, name) {
    if (name.length > protocol.most_name) {
      throw new own.TypeError(own.slice(name, 0, 60) + "… has " + name.length + " characters: no tool has such a name");
    }
    const ofBackend = kind === "tool" || kind === "resource";
    const most = ofBackend ? limits.calls : limits.other_messages, made = ofBackend ? toolCalls++ : otherCalls++;
    if (made >= most) {
      throw limitError(LIMIT.calls, "a chain may make " + most + (ofBackend ? " calls; " : " calls of results and gatemini; ") + name + " was one more");
    }
    return nextId++;
  }

  function opened(name, stack, awaited) {
    const entry = { __proto__: null, id: 0, name, stack, awaited, waiters: 0, races: 0, late: status !== protocol.state.pending, promise: null, resolve: null, reject: null };
    entry.promise = own.construct(own.Promise, [(resolve, reject) => {
      entry.resolve = resolve;
      entry.reject = reject;
    }], CallPromise);
    own.weakSet(calls, entry.promise, entry);
    return entry;
  }

  function send(kind, head, args, name, callee) {
    const entry = opened(name, stackAbove(callee), false);
    try {
      const id = entry.id = claim(kind, name);
      issued[issued.length] = entry;
      const only = args[0];
      const plain = args.length === 1 && typeof only === "object" && only !== null && kind === "tool"
        && own.protoOf(only) === own.ObjectPrototype;
      const value = plain && !own.isArray(only) ? only : prepared(kind, args, name);
      const encoded = encode(value, name === "results.save" ? keptOptions : argumentOptions, noneSettled, name);
      own.mapSet(pending, id, entry);
      if (encoded.promises.length === 0) post(id, head, encoded, name);
      else sendLater(id, head, value, encoded, name);
    } catch (error) {
      placeStack(error, entry.stack);
      own.mapDelete(pending, entry.id);
      entry.reject(error);
    }
    return entry.promise;
  }

  function noteConversions(encoded, before) {
    if (encoded.converted === null) return;
    const text = conversionNote(encoded.converted);
    if (text !== "") note(before + text);
  }

  const TOOL = ',"tool",';
  function post(id, head, encoded, name) {
    // The host knows what a tool takes, makes of a BigInt's digits what is wanted there, and adds the note.
    const bigints = own.slice(head, 0, TOOL.length) === TOOL ? encoded.converted?.bigint : undefined;
    if (bigints !== undefined) delete encoded.converted.bigint;
    noteConversions(encoded, "arguments of " + name + ": ");
    outbox[outbox.length] = "[" + id + head + (encoded.text ?? "null") + "," + (bigints === undefined ? "[]" : "[" + own.join(bigints.places, ",") + "]") + "]";
  }

  async function sendLater(id, head, value, encoded, name) {
    // Promises inside the arguments are waited for first: `b.take({ row: a.find() })` does what it means.
    try {
      const settled = new own.Map();
      for (let round = 0; encoded.promises.length > 0; round++) {
        await waited(settleAll(encoded.promises, settled, round));
        encoded = encode(value, name === "results.save" ? keptOptions : argumentOptions, settled, name);
      }
      post(id, head, encoded, name);
    } catch (error) {
      settle(id, false, error);
    }
  }

  const MOST_ROUNDS = 32; // promises within promises; a getter may make a new one each time it is read
  async function settleAll(promises, settled, round) {
    if (round === MOST_ROUNDS) throw new own.TypeError("a value makes new promises whenever it is read: await them first");
    for (let i = 0; i < promises.length; i++) {
      if (own.mapGet(settled, promises[i]) === undefined) {
        own.mapSet(settled, promises[i], { __proto__: null, value: await waited(promises[i]) });
      }
    }
  }

  const KEEP = ',"results","","keep",false,';
  function keep(type, data) {
    // The host keeps the bytes of a returned typed array among the session's results and answers with the handle.
    const entry = opened("results.keep", "", true);
    entry.id = claim("results", "the returned value");
    own.mapSet(pending, entry.id, entry);
    outbox[outbox.length] = "[" + entry.id + KEEP + "[" + quote(type) + "," + quote(data) + "],[]]";
    return entry.promise;
  }

  async function keepAll(long, settled) {
    let left = limits.value_bytes;
    for (let i = 0; i < long.length; i++) {
      const { value, kind } = long[i];
      let ref;
      try {
        const data = own.toBase64(bytesOf(value, kind));
        if ((left -= data.length) >= 0) ref = await waited(keep(kind === "typed" ? own.typedTag(value) : "Uint8Array", data));
        else note("typed arrays of more than " + limits.value_bytes + " bytes in all are not kept");
      } catch (error) {
        note("a typed array could not be kept: " + thrownLine(error));
      }
      own.mapSet(settled, value, { __proto__: null, value: ref, kept: true });
    }
  }

  function placeStack(error, stack) {
    if (stack !== "") define(error, "stack", { __proto__: null, value: stack, writable: true, configurable: true });
  }

  function settle(id, ok, value) {
    const entry = own.mapGet(pending, id);
    if (entry === undefined) return;
    own.mapDelete(pending, id);
    if (ok) entry.resolve(value);
    else entry.reject(value);
  }

  async function deliver(replies) {
    // Settling may run user code (a getter for `then`), and that runs in jobs only: they can be interrupted and go on.
    await undefined;
    for (let i = 0; i < replies.length; i++) {
      const reply = replies[i];
      const id = reply[0], entry = own.mapGet(pending, id);
      if (entry === undefined) continue;
      if (reply[1]) settle(id, true, reply[2]);
      else {
        const fields = reply[2];
        const error = new ToolError(safeText(safeGet(fields, "message") ?? "the call failed", 100000), fields);
        placeStack(error, entry.stack);
        settle(id, false, error);
      }
    }
  }

  // --- what code calls ---------------------------------------------------------------------------------------------

  const senders = new own.WeakMap(); // what sends a call, and its name
  function sender(kind, backend, tool, raw, name) {
    // Everything about a call that does not change is made once.
    const head = ',"' + kind + '",' + quote(backend) + "," + quote(tool) + "," + (raw ? "true" : "false") + ",";
    const callee = (...args) => send(kind, head, args, name, callee);
    own.weakSet(senders, callee, name);
    return callee;
  }

  const world = backends(values, protocol, sender);

  // --- timers -------------------------------------------------------------------------------------------------------

  const LONGEST_WAIT = 0x7fffffff; // ms, as elsewhere; `sleep(Infinity)` waits as long as the chain may
  const MOST_TIMERS = 100000;
  function addTimer(callback, delay, every, args) {
    if (timers.count() >= MOST_TIMERS) throw limitError(LIMIT.timers, "a chain may have " + MOST_TIMERS + " timers");
    const ms = own.Number(delay);
    const wait = ms > 0 ? (ms < LONGEST_WAIT ? ms : LONGEST_WAIT) : 0;
    const period = every ? (wait < 4 ? 4 : wait) : 0;
    return timers.add(own.tick() + (every ? period : wait), period, callback, args);
  }
  function dropTimer(id) {
    timers.drop(typeof id === "number" ? id : own.Number(id));
  }
  function timerCallback(callback, name) {
    if (typeof callback !== "function") throw new own.TypeError(name + " takes a function first; to wait, write `await sleep(ms)`");
    return callback;
  }
  function sleep(ms) {
    return new own.Promise((resolve) => {
      addTimer(resolve, ms, false, []);
    });
  }

  function fire() {
    // Runs the one timer that is most due; the host lets jobs run between two of them.
    const timer = timers.earliest();
    if (timer === null || timer.due > own.tick()) return;
    const { callback, args } = timer;
    if (timer.period > 0) timers.again(timer, own.tick() + timer.period);
    else timers.drop(timer.id);
    try {
      apply(callback, undefined, args);
    } catch (error) {
      note("a timer callback threw: " + thrownLine(error));
    }
  }

  // --- the run --------------------------------------------------------------------------------------------------------

  const OUT_OF_MEMORY = '{"name":"MemoryError","message":"out of memory","limit":"limit.memory"}';
  let status = protocol.state.pending;
  let outcome = "", outcomeKind = "undefined", refs = list();

  function exposeAlways() {
    // Globals that do not depend on the chain: part of the memory image.
    expose(globalThis, "console", terminal.console);
    expose(globalThis, "ToolError", ToolError);
    expose(globalThis, "setTimeout", (f, ms, ...args) => addTimer(timerCallback(f, "setTimeout"), ms, false, args));
    expose(globalThis, "setInterval", (f, ms, ...args) => addTimer(timerCallback(f, "setInterval"), ms, true, args));
    expose(globalThis, "setImmediate", (f, ...args) => addTimer(timerCallback(f, "setImmediate"), 0, false, args));
    expose(globalThis, "clearTimeout", dropTimer);
    expose(globalThis, "clearInterval", dropTimer);
    expose(globalThis, "clearImmediate", dropTimer);
    expose(globalThis, "sleep", sleep);
    world.exposeAlways();
    shims.install(globalThis);
    regexp.install(globalThis);
    locale.install(note);
  }

  function begin(start) {
    limits = start.limits;
    setOptions();
    shims.seed(start.seed, start.now);
    world.begin(start);
  }

  async function run(main) {
    await undefined; // as in `deliver`
    try {
      let value = await waited(apply(main, undefined, []));
      if (typeof value === "function") {
        const tool = own.weakGet(senders, value);
        if (tool !== undefined) throw new own.TypeError("the code returned " + tool + " itself, not a result: `return await " + tool + "({…})`");
        note("the code returned a function; it was called without arguments");
        value = await waited(value());
      }
      const settled = new own.Map();
      let encoded = encode(value, valueOptions, settled, "");
      for (let round = 0; encoded.promises.length + encoded.long.length > 0; round++) {
        await waited(settleAll(encoded.promises, settled, round));
        await waited(keepAll(encoded.long, settled));
        encoded = encode(value, valueOptions, settled, "");
      }
      const awaited = own.mapGet(settled, value);
      finish(awaited !== undefined && awaited.kept !== true ? awaited.value : value, encoded);
      status = protocol.state.done;
      own.mapEach(pending, (entry) => { entry.late = true; });
    } catch (error) {
      status = protocol.state.failed;
      outcome = OUT_OF_MEMORY; // stays where not even the error can be described
      outcome = describe(error);
    }
  }

  function finish(value, encoded) {
    noteConversions(encoded, "returned value: ");
    refs = encoded.refs;
    if (encoded.text === undefined) {
      outcome = "null";
      // A symbol, or a function that gives a function, is dropped with a note.
      outcomeKind = typeof value === "symbol" || typeof value === "function" ? "json" : "undefined";
    } else if (typeof value === "string") {
      if (value.length > limits.value_bytes) throw limitError(LIMIT.value, "the returned value is larger than " + limits.value_bytes + " bytes");
      outcome = own.isWellFormed(value) ? value : own.toWellFormed(value);
      outcomeKind = "string";
    } else {
      outcome = encoded.text;
      outcomeKind = "json";
    }
  }

  function waitMs() {
    const timer = timers.earliest();
    return timer === null ? "null" : own.max(0, timer.due - own.tick());
  }

  function collect() {
    // One text for everything the host needs to know; called after all jobs have run.
    let text = '{"state":' + status + ',"open":' + own.mapSize(pending) + ',"wake":' + waitMs() + ',"calls":[';
    if (outbox.length > 0) {
      text += own.join(outbox, ",");
      outbox = list();
    }
    return text + (status === protocol.state.done ? '],"raced":[' + raced() : "") + "]}";
  }

  function raced() {
    // Open calls of a chain with a race: those of the race itself that nothing else waits for, and those that a promise
    // made from them, or an async function, waited for.
    const ids = list();
    let n = 0;
    if (races) own.mapEach(pending, (entry) => { if (entry.awaited && (entry.races === 0 || entry.waiters <= entry.races)) ids[n++] = entry.id; });
    return own.join(ids, ",");
  }

  const MOST_PLACES = 100; // calls that are reported with the place where they were made
  function summary() {
    // What goes with the end of a chain, done or failed.
    const ids = list(), places = list();
    let n = 0;
    for (let i = 0; i < issued.length; i++) {
      const { id, awaited, late, stack } = issued[i];
      if (!awaited) ids[n++] = id;
      if ((!awaited || late) && places.length < MOST_PLACES) places[places.length] = "[" + id + "," + quote(own.slice(stack, 0, 1000)) + "]";
    }
    const left = timers.count();
    if (left > 0) note(left + " timer" + (left === 1 ? " was" : "s were") + " still pending at the end and dropped");
    const quotedNotes = list(), quotedRefs = list();
    for (let i = 0; i < noteList.length; i++) quotedNotes[i] = quote(noteList[i]);
    for (let i = 0; i < refs.length && i < 1000; i++) quotedRefs[i] = quote(refs[i]);
    return '{"kind":"' + outcomeKind + '","notes":[' + own.join(quotedNotes, ",") + '],"unawaited":[' + own.join(ids, ",") + '],"places":[' + own.join(places, ",") + '],"refs":[' + own.join(quotedRefs, ",") + "]}";
  }

  // --- errors -----------------------------------------------------------------------------------------------------------

  function thrownLine(error) {
    if (typeof error !== "object" || error === null) return safeText(error, 500);
    const name = safeGet(error, "name"), message = safeGet(error, "message"), tool = safeGet(error, "tool");
    if (typeof message !== "string") return safeText(error, 500);
    const of = typeof tool === "string" && own.indexOf(message, tool) < 0 ? own.slice(tool, 0, 200) + ": " : "";
    return (typeof name === "string" ? own.slice(name, 0, 100) : "Error") + ": " + of + own.slice(message, 0, 500);
  }

  function tells(outer, cause) {
    // Whether the text of an error repeats its cause, as in `throw new Error("no rows: " + e.message, { cause: e })`.
    const whole = safeGet(outer, "message"), part = safeGet(cause, "message");
    return typeof whole === "string" && typeof part === "string" && part.length >= 16 && own.indexOf(whole, part) >= 0;
  }

  const MOST_CAUSES = 8; // lines on what an error holds: enough to find the first cause, whatever made the chain
  function causesOf(error) {
    // The causes of an error, one line each: the errors of an AggregateError and the chain of `cause`.
    const lines = list(), seen = list();
    let at = error;
    while (typeof at === "object" && at !== null && lines.length < MOST_CAUSES) {
      for (let i = 0; i < seen.length; i++) if (seen[i] === at) return own.join(lines, "\n");
      seen[seen.length] = at;
      const errors = safeGet(at, "errors");
      const size = kindOfSafely(errors ?? 0) === "array" && kindOfSafely(at) === "error" ? errors.length : 0;
      for (let i = 0; i < size && lines.length < MOST_CAUSES; i++) {
        lines[lines.length] = "Error " + (i + 1) + " of " + size + ": " + thrownLine(safeGet(errors, i));
      }
      const cause = safeGet(at, "cause");
      if (cause === undefined) break;
      if (!tells(at, cause) && lines.length < MOST_CAUSES) lines[lines.length] = "Caused by: " + thrownLine(cause);
      at = cause;
    }
    return own.join(lines, "\n");
  }

  function limitOf(error, name, message) {
    const code = own.weakGet(limitCodes, error);
    if (code !== undefined) return code;
    if (name === "InternalError" && message === "out of memory") return LIMIT.memory;
    if ((name === "RangeError" || name === "InternalError") && (message === "invalid string length" || message === "string too long")) {
      return LIMIT.memory;
    }
    return null;
  }

  function fieldText(name, value) {
    if (value === undefined || value === null) return "";
    try {
      const encoded = encode(value, {
        __proto__: null, wantsRefs: false, depth: 100, typedItems: 100, bytes: 1 << 16, code: LIMIT.value, what: "field", deep: null,
      }, noneSettled, name);
      return encoded.text === undefined ? "" : ',"' + name + '":' + encoded.text;
    } catch {
      return "";
    }
  }

  function describe(error) {
    // JSON of anything thrown: readable whatever its getters do.
    let name = "Error", message, stack = "", extra = "", limit = null;
    if (typeof error === "object" && error !== null && kindOfSafely(error) === "error") {
      const givenName = safeGet(error, "name"), givenMessage = safeGet(error, "message"), givenStack = safeGet(error, "stack");
      if (typeof givenName === "string" && givenName !== "") name = own.slice(givenName, 0, 200);
      // Without a call of ours: when memory has run out, one more frame may be too much.
      message = typeof givenMessage === "string" ? (givenMessage.length > 100000 ? own.slice(givenMessage, 0, 100000) + "…" : givenMessage) : "(the error's message cannot be read)";
      if (typeof givenStack === "string") stack = own.slice(givenStack, 0, 8000);
      limit = limitOf(error, name, message);
      const fields = ["tool", "backend", "code", "structured", "hint"];
      for (let i = 0; i < fields.length; i++) extra += fieldText(fields[i], safeGet(error, fields[i]));
      const causes = causesOf(error);
      if (causes !== "") extra += ',"cause":' + quote(causes);
      if (message === "" && kindOfSafely(safeGet(error, "errors") ?? 0) === "array") message = "none of the promises was fulfilled";
    } else {
      // What the engine throws when it has no memory left for an error: a value of no type.
      if (typeof error === "unknown") return '{"name":"InternalError","message":"out of memory","stack":"","limit":' + quote(LIMIT.memory) + "}";
      message = safeText(error, 10000) + " (thrown as " + (error === null ? "null" : typeof error) + ", not as an Error)";
      if (typeof error === "object" && error !== null) extra = fieldText("structured", error);
    }
    return '{"name":' + quote(name) + ',"message":' + quote(message) + ',"stack":' + quote(stack) + ',"limit":' + (limit === null ? "null" : quote(limit)) + extra + "}";
  }

  function kindOfSafely(value) {
    try {
      return kindOf(value);
    } catch {
      return "unreadable";
    }
  }

  function rejected(promise, reason) {
    // An unhandled rejection, reported by the engine. Calls are left out: they are reported as un-awaited.
    if (own.weakGet(calls, promise) !== undefined) return;
    note("a rejected promise was not handled: " + thrownLine(reason));
  }

  exposeAlways();
  return [begin, run, deliver, collect, fire, () => outcome, summary, describe, rejected, terminal.buffer];
})
