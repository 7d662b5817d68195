// Standard helpers that QuickJS lacks and scripts expect.
//
// Unlike the bridge this code may use globals: whatever breaks them harms only the chain that did it.
(function (values) {
  "use strict";
  const { own } = values;

  // --- randomness: xoshiro128** from the host's 32-byte seed -------------------------------------------

  const state = new Uint32Array(4);
  function seed(words, now) {
    for (let i = 0; i < 4; i++) state[i] = words[i] ^ words[i + 4];
    if ((state[0] | state[1] | state[2] | state[3]) === 0) state[0] = 1;
    clock.timeOrigin = now;
  }
  const rotate = (x, k) => ((x << k) | (x >>> (32 - k))) >>> 0;
  const multiply = Math.imul;
  function next32() {
    const result = multiply(rotate(multiply(state[1], 5) >>> 0, 7), 9) >>> 0;
    const t = (state[1] << 9) >>> 0;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= t;
    state[3] = rotate(state[3], 11);
    return result;
  }
  const random = () => ((next32() >>> 5) * 67108864 + (next32() >>> 6)) / 9007199254740992;

  const clock = { now: () => own.now() - clock.timeOrigin, timeOrigin: 0, mark() {}, measure() {} };

  const crypto = {
    getRandomValues(array) {
      const bytes = bytesOf(array);
      for (let i = 0; i < bytes.length; i++) bytes[i] = next32() >>> 24;
      return array;
    },
    randomUUID() {
      const bytes = crypto.getRandomValues(new Uint8Array(16));
      bytes[6] = (bytes[6] & 15) | 64; // version 4
      bytes[8] = (bytes[8] & 63) | 128; // variant of RFC 9562
      return bytes.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
    },
    get subtle() {
      throw new TypeError("crypto.subtle does not exist in this sandbox; hashing belongs in a backend's tool");
    },
  };

  // --- text ----------------------------------------------------------------------------------------------

  function encodeLatin1(text) {
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }
  const PIECE = 4096; // arguments of one call
  function decodeLatin1(bytes) {
    let text = "";
    for (let i = 0; i < bytes.length; i += PIECE) text += String.fromCharCode(...bytes.subarray(i, i + PIECE));
    return text;
  }

  const encodeUtf8 = (text) => encodeLatin1(unescape(encodeURIComponent(String(text).toWellFormed())));
  // Characters, and beginnings of characters that become one U+FFFD each (WHATWG Encoding).
  const SEQUENCES = new RegExp("[\\0-\\x7f]+|[\\xc2-\\xdf][\\x80-\\xbf]"
    + "|(?:\\xe0[\\xa0-\\xbf]|\\xed[\\x80-\\x9f]|[\\xe1-\\xec\\xee\\xef][\\x80-\\xbf])[\\x80-\\xbf]?"
    + "|(?:\\xf0[\\x90-\\xbf]|\\xf4[\\x80-\\x8f]|[\\xf1-\\xf3][\\x80-\\xbf])[\\x80-\\xbf]{0,2}|[^]", "g");
  function decodeUtf8(bytes, fatal, keepBom) {
    const withBom = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
    const binary = decodeLatin1(withBom && !keepBom ? bytes.subarray(3) : bytes);
    try {
      return decodeURIComponent(escape(binary));
    } catch {
      if (fatal) throw new TypeError("the bytes are not valid UTF-8");
    }
    return binary.replace(SEQUENCES, (run) => {
      try {
        return decodeURIComponent(escape(run));
      } catch {
        return "\ufffd";
      }
    });
  }

  const bytesOf = (input) =>
    input === undefined ? new Uint8Array(0)
      : ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
      : new Uint8Array(input);

  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return encodeUtf8(text); }
    encodeInto(text, target) {
      const bytes = encodeUtf8(text);
      const written = Math.min(bytes.length, target.length);
      target.set(bytes.subarray(0, written));
      return { read: String(text).length, written };
    }
  }
  class TextDecoder {
    #label; #fatal; #keepBom;
    constructor(label = "utf-8", options = {}) {
      const name = String(label).toLowerCase().replace(/_/g, "-");
      if (!["utf-8", "utf8", "ascii", "us-ascii", "latin1", "iso-8859-1", "windows-1252"].includes(name)) {
        throw new RangeError(`TextDecoder here knows utf-8 and latin1, not ${label}`);
      }
      this.#label = name === "utf8" || name === "utf-8" ? "utf-8" : "latin1";
      this.#fatal = Boolean(options.fatal);
      this.#keepBom = Boolean(options.ignoreBOM);
    }
    get encoding() { return this.#label === "utf-8" ? "utf-8" : "windows-1252"; }
    decode(input) {
      const bytes = bytesOf(input);
      return this.#label === "utf-8" ? decodeUtf8(bytes, this.#fatal, this.#keepBom) : decodeLatin1(bytes);
    }
  }

  // --- Buffer: the small part scripts use ------------------------------------------------------------------

  function fromBase64(text) {
    // Both alphabets, and what is in neither is skipped.
    const clean = text.replace(/-/g, "+").replace(/_/g, "/").replace(/[^A-Za-z0-9+/]/g, "");
    return Uint8Array.fromBase64(clean.length % 4 === 1 ? clean.slice(0, -1) : clean);
  }

  class Buffer extends Uint8Array {
    static from(value, encoding = "utf8") {
      if (typeof value !== "string") return new Buffer(value instanceof ArrayBuffer ? new Uint8Array(value) : value);
      const name = String(encoding).toLowerCase();
      if (name === "base64" || name === "base64url") return new Buffer(fromBase64(value));
      if (name === "hex") return new Buffer((value.match(/[0-9a-f]{2}/gi) ?? []).map((pair) => parseInt(pair, 16)));
      if (name === "latin1" || name === "binary" || name === "ascii") return new Buffer(Array.from(value, (c) => c.charCodeAt(0) & 255));
      return new Buffer(encodeUtf8(value));
    }
    static alloc(size, fill = 0) { return new Buffer(size).fill(fill); }
    static concat(parts) {
      const made = new Buffer(parts.reduce((n, part) => n + part.length, 0));
      let at = 0;
      for (const part of parts) { made.set(part, at); at += part.length; }
      return made;
    }
    static isBuffer(value) { return value instanceof Buffer; }
    static byteLength(text, encoding) { return Buffer.from(text, encoding).length; }
    toString(encoding = "utf8") {
      const name = String(encoding).toLowerCase();
      if (name === "base64") return this.toBase64();
      if (name === "base64url") return this.toBase64({ alphabet: "base64url", omitPadding: true });
      if (name === "hex") return this.toHex();
      if (name === "latin1" || name === "binary") return decodeLatin1(this);
      return decodeUtf8(this, false, true);
    }
    equals(other) { return this.length === other.length && this.every((b, i) => b === other[i]); }
  }

  // --- structuredClone -----------------------------------------------------------------------------------------

  function structuredClone(value) {
    const seen = new Map();
    const clone = (v) => {
      if (typeof v === "function" || typeof v === "symbol") throw new TypeError(`structuredClone cannot copy a ${typeof v}`);
      if (typeof v !== "object" || v === null) return v;
      if (seen.has(v)) return seen.get(v);
      const keep = (made) => { seen.set(v, made); return made; };
      const kind = values.kindOf(v);
      switch (kind) {
        case "date": return keep(new Date(v.getTime()));
        case "map": {
          const made = keep(new Map());
          v.forEach((item, key) => made.set(clone(key), clone(item)));
          return made;
        }
        case "set": {
          const made = keep(new Set());
          v.forEach((item) => made.add(clone(item)));
          return made;
        }
        case "error": {
          const made = keep(new (globalThis[v.name] ?? Error)(v.message));
          made.stack = v.stack;
          return made;
        }
        case "typed": case "buffer": return keep(v.slice());
        case "regexp": return keep(new RegExp(v.source, v.flags));
        case "promise": case "backend": throw new TypeError("structuredClone cannot copy a promise or a backend");
      }
      const made = keep(kind === "array" ? new Array(v.length) : {});
      for (const key of Object.keys(v)) made[key] = clone(v[key]);
      return made;
    };
    return clone(value);
  }

  // --- URL -------------------------------------------------------------------------------------------------------

  const formEncode = (text) =>
    encodeURIComponent(String(text).toWellFormed()).replace(/%20/g, "+").replace(/[!'()~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());
  const formDecode = (text) => decodePercent(text.replace(/\+/g, " "));
  const decodePercent = (text) => {
    if (!text.includes("%")) return text;
    return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => decodeUtf8(Uint8Array.fromHex(run.replace(/%/g, "")), false, true));
  };

  let watchedParams; // URLSearchParams that report each change
  class URLSearchParams {
    static {
      watchedParams = (text, changed) => {
        const params = new URLSearchParams(text);
        params.#changed = changed;
        return params;
      };
    }
    #pairs = []; #changed = () => {};
    constructor(init = "") {
      if (typeof init === "string" || init instanceof String) this.#read(String(init));
      else if (init === null || init === undefined) return;
      else if (typeof init[Symbol.iterator] === "function") for (const [k, v] of init) this.#pairs.push([String(k), String(v)]);
      else for (const k of Object.keys(init)) this.#pairs.push([k, String(init[k])]);
    }
    #read(text) {
      for (const part of text.replace(/^\?/, "").split("&")) {
        if (part === "") continue;
        const at = part.indexOf("=");
        this.#pairs.push(at < 0 ? [formDecode(part), ""] : [formDecode(part.slice(0, at)), formDecode(part.slice(at + 1))]);
      }
    }
    #touch() { this.#changed(this.toString()); }
    get size() { return this.#pairs.length; }
    append(k, v) { this.#pairs.push([String(k), String(v)]); this.#touch(); }
    delete(k, v) { this.#pairs = this.#pairs.filter((p) => p[0] !== String(k) || (v !== undefined && p[1] !== String(v))); this.#touch(); }
    get(k) { return this.#pairs.find((p) => p[0] === String(k))?.[1] ?? null; }
    getAll(k) { return this.#pairs.filter((p) => p[0] === String(k)).map((p) => p[1]); }
    has(k, v) { return this.#pairs.some((p) => p[0] === String(k) && (v === undefined || p[1] === String(v))); }
    set(k, v) {
      const at = this.#pairs.findIndex((p) => p[0] === String(k));
      if (at < 0) return this.append(k, v);
      this.#pairs[at][1] = String(v);
      this.#pairs = this.#pairs.filter((p, i) => i <= at || p[0] !== String(k));
      this.#touch();
    }
    sort() { this.#pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)); this.#touch(); }
    forEach(f, self) { for (const [k, v] of this.#pairs) f.call(self, v, k, this); }
    keys() { return this.#pairs.map((p) => p[0]).values(); }
    values() { return this.#pairs.map((p) => p[1]).values(); }
    entries() { return this.#pairs.map((p) => [...p]).values(); }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map((p) => `${formEncode(p[0])}=${formEncode(p[1])}`).join("&"); }
    toJSON() { return this.toString(); }
  }

  const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21" };
  const keepEscapes = (text, allowed) =>
    text.toWellFormed().replace(/%[0-9a-f]{2}|[^]/giu, (c) => (c.length === 3 && c[0] === "%") || allowed.test(c) ? c : encodeURIComponent(c));
  const PATH_CHARS = /^[A-Za-z0-9\-._~!$&'()*+,;=:@/%[\]|]$/;
  const QUERY_CHARS = /^[A-Za-z0-9\-._~!$&()*+,;=:@/?%[\]|{}`^\\]$/;
  const USER_CHARS = /^[A-Za-z0-9\-._~!$&()*+,%]$/;
  const HASH_CHARS = /^[A-Za-z0-9\-._~!$&'()*+,;=:@/?%[\]|{}^\\#]$/;

  function withoutDots(path) {
    const out = [];
    const parts = path.split("/").slice(1);
    parts.forEach((part, i) => {
      const last = i === parts.length - 1, plain = part.replace(/%2e/gi, ".");
      if (plain === "..") { out.pop(); if (last) out.push(""); }
      else if (plain === ".") { if (last) out.push(""); }
      else out.push(part);
    });
    return "/" + out.join("/");
  }

  class URL {
    #p; #params;
    constructor(text, base) {
      const input = String(text).trim();
      this.#p = URL.#parse(input, base === undefined ? null : new URL(base).#p);
      if (this.#p === null) throw new TypeError(`Invalid URL: ${input.slice(0, 200)}`);
      this.#watch();
    }
    #watch() {
      this.#params = watchedParams(this.#p.search, (query) => { this.#p.search = query === "" ? "" : "?" + query; });
    }
    static canParse(text, base) { return URL.parse(text, base) !== null; }
    static parse(text, base) { try { return new URL(text, base); } catch { return null; } }
    static #parse(input, base) {
      const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(input);
      if (scheme === null) return base === null ? null : URL.#relative(input, base);
      const protocol = scheme[1].toLowerCase() + ":", rest = input.slice(scheme[0].length);
      const special = protocol in PORTS || protocol === "file:";
      const [, before, search, hash] = /^([^?#]*)(\?[^#]*)?(#[^]*)?$/.exec(rest);
      const p = { protocol, username: "", password: "", hostname: "", port: "", pathname: "", opaque: false };
      p.search = search === undefined || search === "?" ? "" : keepEscapes(search, QUERY_CHARS);
      p.hash = hash === undefined || hash === "#" ? "" : keepEscapes(hash, HASH_CHARS);
      const body = special ? before.replace(/\\/g, "/") : before;
      if (!special && !body.startsWith("//")) {
        p.opaque = !body.startsWith("/");
        p.pathname = p.opaque ? body : withoutDots(keepEscapes(body, PATH_CHARS));
        return p;
      }
      const cut = special ? body.replace(/^\/*/, protocol === "file:" ? (all) => "/".repeat(Math.max(0, all.length - 2)) : "") : body.slice(2);
      const at = cut.indexOf("/"), authority = at < 0 ? cut : cut.slice(0, at);
      p.pathname = at < 0 ? (special ? "/" : "") : withoutDots(keepEscapes(cut.slice(at), PATH_CHARS));
      return URL.#authority(p, authority, special) ? p : null;
    }
    static #authority(p, authority, special) {
      const at = authority.lastIndexOf("@");
      if (at >= 0) {
        const [user, ...secret] = authority.slice(0, at).split(":");
        p.username = keepEscapes(user, USER_CHARS);
        p.password = keepEscapes(secret.join(":"), USER_CHARS);
      }
      const match = /^(\[[0-9a-f:.]+\]|[^:[\]]*)(?::([0-9]*))?$/i.exec(authority.slice(at + 1));
      if (match === null) return false;
      p.hostname = special ? decodePercent(match[1]).toLowerCase() : match[1];
      if (special && p.protocol !== "file:" && p.hostname === "") return false;
      if (special && /[\s#%/<>?@\\^|]/.test(p.hostname)) return false;
      if (match[2]) {
        if (Number(match[2]) > 65535) return false;
        p.port = String(Number(match[2])) === PORTS[p.protocol] ? "" : String(Number(match[2]));
      }
      return true;
    }
    static #relative(input, base) {
      if (base.opaque) return input.startsWith("#") ? { ...base, hash: input } : null;
      if (input === "") return { ...base, hash: "" };
      if (input.startsWith("//")) return URL.#parse(base.protocol + input, null);
      const whole = URL.#text({ ...base, pathname: "", search: "", hash: "" });
      if (input.startsWith("/")) return URL.#parse(whole + input, null);
      if (input.startsWith("?")) return URL.#parse(whole + base.pathname + input, null);
      if (input.startsWith("#")) return URL.#parse(whole + base.pathname + base.search + input, null);
      return URL.#parse(whole + base.pathname.slice(0, base.pathname.lastIndexOf("/") + 1) + input, null);
    }
    static #text(p) {
      const secret = p.password === "" ? "" : ":" + p.password;
      const user = p.username + secret === "" ? "" : p.username + secret + "@";
      const slashes = p.opaque || (p.hostname === "" && p.protocol !== "file:" && !(p.protocol in PORTS)) ? "" : "//";
      return p.protocol + slashes + user + p.hostname + (p.port === "" ? "" : ":" + p.port) + p.pathname + p.search + p.hash;
    }
    get protocol() { return this.#p.protocol; }
    set protocol(v) { this.#p.protocol = String(v).replace(/:?$/, ":").toLowerCase(); }
    get username() { return this.#p.username; }
    set username(v) { this.#p.username = encodeURIComponent(v); }
    get password() { return this.#p.password; }
    set password(v) { this.#p.password = encodeURIComponent(v); }
    get hostname() { return this.#p.hostname; }
    set hostname(v) { this.#p.hostname = String(v).toLowerCase(); }
    get port() { return this.#p.port; }
    set port(v) { this.#p.port = String(v) === PORTS[this.#p.protocol] ? "" : String(v); }
    get host() { return this.#p.hostname + (this.#p.port === "" ? "" : ":" + this.#p.port); }
    set host(v) { [this.#p.hostname, this.#p.port = ""] = String(v).split(":"); }
    get origin() { return this.#p.protocol in PORTS ? `${this.#p.protocol}//${this.host}` : "null"; }
    get pathname() { return this.#p.pathname; }
    set pathname(v) { this.#p.pathname = withoutDots(keepEscapes(String(v).replace(/^\/?/, "/").replace(/[?#]/g, encodeURIComponent), PATH_CHARS)); }
    get search() { return this.#p.search; }
    set search(v) {
      const query = String(v).replace(/^\?/, "");
      this.#p.search = query === "" ? "" : "?" + keepEscapes(query.replace(/#/g, "%23"), QUERY_CHARS);
      this.#watch();
    }
    get hash() { return this.#p.hash; }
    set hash(v) { const h = String(v).replace(/^#/, ""); this.#p.hash = h === "" ? "" : "#" + keepEscapes(h, HASH_CHARS); }
    get searchParams() { return this.#params; }
    get href() { return URL.#text(this.#p); }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }

  function install(global) {
    const helpers = {
      performance: clock, crypto, TextEncoder, TextDecoder, Buffer, structuredClone, URL, URLSearchParams,
    };
    for (const name of Object.keys(helpers)) values.expose(global, name, helpers[name]);
    values.expose(Math, "random", random);
  }

  return own.freeze({ __proto__: null, seed, install });
})
