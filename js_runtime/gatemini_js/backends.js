// Objects that code calls: one Proxy per backend, `results`, `gatemini`, the interfaces. Nothing is made per tool.
//
// A backend object is never thenable and calls nothing when it is printed, copied or looked at.
(function (values, protocol, sender) {
  "use strict";
  const { own, expose, list, backendNames, quote } = values;
  const { define, apply } = own;

  // --- backends -----------------------------------------------------------------------------------------------

  let catalog = null;
  const backendByName = own.create(null);
  const OBJECT_MEMBERS = own.create(null);
  {
    const names = own.ownKeys(own.ObjectPrototype);
    for (let i = 0; i < names.length; i++) OBJECT_MEMBERS[names[i]] = true;
  }

  function toolFunction(backend, tool) {
    const name = backend + "." + tool;
    const callTool = sender("tool", backend, tool, false, name);
    expose(callTool, "raw", sender("tool", backend, tool, true, name));
    return callTool;
  }

  function specialMember(backend, special) {
    // `readResource` and `call` are ours unless what is given looks like a call of a tool with that name.
    const asTool = toolFunction(backend, special);
    const make = (raw) => (...args) => {
      const first = args[0];
      if (typeof first !== "string") return apply(raw ? asTool.raw : asTool, undefined, args);
      if (special === "readResource") return apply(sender("resource", backend, "", raw, backend + ".readResource"), undefined, args);
      const rest = list();
      for (let i = 1; i < args.length; i++) rest[i - 1] = args[i];
      return apply(sender("tool", backend, first, raw, backend + "." + first), undefined, rest);
    };
    const member = make(false);
    expose(member, "raw", make(true));
    return member;
  }

  function guarded(backend, key, member) {
    // A member that every object has. Called with an object, as a tool is, it throws and names the way to such a tool.
    const reach = "__backends[" + quote(backend) + "].call(" + quote(key) + ", {…})";
    return function (...args) {
      const only = args[0];
      if (typeof member !== "function" || key === "constructor" || (typeof only === "object" && only !== null)) {
        throw new own.TypeError(backend + "." + key + " is what every object has, not a tool: write `" + reach + "` for a tool of that name");
      }
      return apply(member, this, args);
    };
  }

  function makeBackend(name, owners) {
    const tools = own.create(null);
    const text = "[backend " + name + "]";
    const ambiguous = owners === undefined ? null
      : () => new own.TypeError(name + " could be any of " + own.join(owners, ", ") + ': write __backends["' + owners[0] + '"] instead');
    const describe = () => text;
    const get = (_target, key) => {
      if (typeof key === "symbol") {
        if (key === own.toPrimitive) return describe;
        return key === own.toStringTag ? "backend" : undefined;
      }
      if (key === "then") return undefined;
      if (key === "toString" || key === "toJSON" || key === "inspect") return guarded(name, key, describe);
      if (OBJECT_MEMBERS[key] === true) return guarded(name, key, own.ObjectPrototype[key]);
      if (ambiguous !== null) throw ambiguous();
      let tool = tools[key];
      if (tool === undefined) {
        tool = tools[key] = key === "call" || key === "readResource" ? specialMember(name, key) : toolFunction(name, key);
      }
      return tool;
    };
    const namesOf = () => (catalog === null ? undefined : catalog[name]);
    const refuse = (what) => () => {
      throw new own.TypeError(name + " is a backend: it cannot be " + what);
    };
    const proxy = new own.Proxy(own.create(null), {
      __proto__: null,
      get,
      has(_target, key) {
        const names = namesOf();
        return names !== undefined && own.includes(names, key);
      },
      ownKeys() {
        const names = namesOf(), copy = [];
        if (names !== undefined) for (let i = 0; i < names.length; i++) {
          define(copy, i, { __proto__: null, value: names[i], writable: true, enumerable: true, configurable: true });
        }
        return copy;
      },
      getOwnPropertyDescriptor(target, key) {
        const names = namesOf();
        if (names === undefined || !own.includes(names, key)) return undefined;
        return { __proto__: null, value: get(target, key), writable: true, enumerable: true, configurable: true };
      },
      set: refuse("changed"),
      defineProperty: refuse("changed"),
      deleteProperty: refuse("changed"),
      setPrototypeOf: refuse("changed"),
      preventExtensions: refuse("frozen or sealed"),
    });
    own.weakSet(backendNames, proxy, name);
    return proxy;
  }

  function exposeBackends(start) {
    const all = own.create(null);
    for (let i = 0; i < start.backends.length; i++) {
      const pair = start.backends[i], identifier = pair[0], name = pair[1];
      if (name === "") {
        expose(globalThis, identifier, makeBackend(identifier, start.ambiguous[identifier]));
        continue;
      }
      let backend = backendByName[name];
      if (backend === undefined) backend = backendByName[name] = makeBackend(name);
      define(all, name, { __proto__: null, value: backend, enumerable: true, writable: true, configurable: true });
      if (identifier !== "") expose(globalThis, identifier, backend);
      if (!own.hasOwn(globalThis, name)) expose(globalThis, name, backend);
    }
    expose(globalThis, "__backends", all);
  }

  // --- discovery and results: plain messages ----------------------------------------------------------------------

  function messenger(kind, names) {
    const target = {};
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      expose(target, name, sender(kind, "", name, false, kind + "." + name));
    }
    return target;
  }

  let interfaces = own.create(null), modules = "there is no module system here";

  function exposeAlways() {
    // What does not depend on the chain: part of the memory image.
    expose(globalThis, "gatemini", messenger("gatemini", protocol.gatemini));
    const results = messenger("results", protocol.results);
    expose(results, "chunks", chunks);
    expose(globalThis, "results", results);
    expose(globalThis, "__interfaces", interfaces);
    expose(globalThis, "__getToolInterface", (name) => lookUp(interfaces, own.String(name)));
    expose(globalThis, "__import", async (name) => { throw absence("could not load module '" + own.String(name) + "'", modules); });
  }

  function lookUp(interfaces, name) {
    // By "backend.tool", by bare tool name, or through the whole catalogue where the start message holds it.
    if (own.hasOwn(interfaces, name)) {
      const found = interfaces[name];
      if (found === null || own.hasOwn(found, "name")) return found;
    }
    const backends = own.keys(interfaces);
    for (let i = 0; i < backends.length; i++) {
      const backend = backends[i], tools = interfaces[backend];
      if (typeof tools !== "object" || tools === null) continue;
      const head = backend + ".";
      const bare = own.slice(name, 0, head.length) === head ? own.slice(name, head.length) : name;
      if (own.hasOwn(tools, bare)) return tools[bare];
    }
    return null;
  }

  function chunks(...args) {
    // An async iterator over pages of a result, so that code need not hold all of it at once. The host checks the
    // request and says where the next page starts; pages requested together come one after the other.
    const chunk = sender("results", "", "chunk", false, "results.chunks");
    let ask = args, ended = false, turn;
    const step = async () => {
      if (ended) return { value: undefined, done: true };
      ended = true; // until the page is there: a failure is the end
      const page = await own.apply(chunk, undefined, ask);
      const rows = page.rows, options = args[1], following = page.next_offset;
      if (following !== null) {
        const wanted = options === undefined || options === null ? undefined : options.rows;
        ask = [args[0], wanted === undefined ? { offset: following } : { offset: following, rows: wanted }];
        ended = false;
      }
      if (rows.length === 0) return { value: undefined, done: true };
      const continues = page.pieces !== undefined && page.piece + 1 < page.pieces;
      define(rows, "continues", { __proto__: null, value: continues, writable: true, configurable: true });
      return { value: rows, done: false };
    };
    const after = async (before) => {
      try {
        await before;
      } catch { /* the request for that page got the error */ }
      return step();
    };
    const next = () => turn = turn === undefined ? step() : after(turn);
    return {
      __proto__: own.AsyncIteratorPrototype,
      next,
      return: async (value) => { ended = true; return { value, done: true }; },
      [own.asyncIterator]() { return this; },
      [own.toStringTag]: "results.chunks",
    };
  }

  // --- what other hosts have ------------------------------------------------------------------------------------------

  function absence(head, hint) {
    // Code that catches it reads all of it; of an uncaught error the host shows message and hint apart.
    const error = new own.ReferenceError(head + ": " + hint);
    define(error, "hint", { __proto__: null, value: hint, writable: true, configurable: true });
    return error;
  }

  function exposeAbsent(start) {
    // Only names the code reads without asking for them first: `typeof fetch` would run the getter.
    const absent = start.absent ?? own.create(null), names = own.keys(absent);
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      if (own.hasOwn(globalThis, name)) continue;
      const fail = () => { throw absence(name + " is not defined", absent[name]); };
      define(globalThis, name, { __proto__: null, get: fail, set: fail, enumerable: false, configurable: true });
    }
    if (own.hasOwn(absent, "import")) modules = absent.import;
  }

  function begin(start) {
    catalog = start.catalog ?? null;
    if (start.args !== undefined) expose(globalThis, "args", start.args);
    if (start.interfaces !== undefined) expose(globalThis, "__interfaces", interfaces = start.interfaces);
    exposeBackends(start);
    exposeAbsent(start);
  }

  return own.freeze({ __proto__: null, exposeAlways, begin });
})
