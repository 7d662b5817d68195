// The standard helpers that a script expects. What this sandbox lacks is left undefined: the host explains such errors.
//
// Ordinary library code: unlike the bridge it may use globals, since breaking them harms only the chain that did
// it.
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

  const HEX = "0123456789abcdef";
  const crypto = {
    getRandomValues(array) {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      for (let i = 0; i < bytes.length; i++) bytes[i] = next32() >>> 24;
      return array;
    },
    randomUUID() {
      let text = "";
      for (let i = 0; i < 32; i++) {
        if (i === 8 || i === 12 || i === 16 || i === 20) text += "-";
        let digit = next32() >>> 28;
        if (i === 12) digit = 4;
        if (i === 16) digit = (digit & 3) | 8;
        text += HEX[digit];
      }
      return text;
    },
    get subtle() {
      throw new TypeError("crypto.subtle does not exist in this sandbox; hashing belongs in a backend's tool");
    },
  };

  // --- text ----------------------------------------------------------------------------------------------

  function encodeUtf8(text) {
    const s = String(text).toWellFormed();
    const bytes = [];
    for (const symbol of s) {
      const c = symbol.codePointAt(0);
      if (c < 0x80) bytes.push(c);
      else if (c < 0x800) bytes.push(0xc0 | (c >> 6), 0x80 | (c & 63));
      else if (c < 0x10000) bytes.push(0xe0 | (c >> 12), 0x80 | ((c >> 6) & 63), 0x80 | (c & 63));
      else bytes.push(0xf0 | (c >> 18), 0x80 | ((c >> 12) & 63), 0x80 | ((c >> 6) & 63), 0x80 | (c & 63));
    }
    return Uint8Array.from(bytes);
  }

  function decodeUtf8(bytes, fatal, keepBom) {
    let text = "", i = 0;
    const bad = () => {
      if (fatal) throw new TypeError("the bytes are not valid UTF-8");
      text += "\ufffd";
    };
    if (!keepBom && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) i = 3;
    while (i < bytes.length) {
      const c = bytes[i++];
      if (c < 0x80) {
        text += String.fromCharCode(c);
        continue;
      }
      let need = 0, low = 0x80, high = 0xbf, code = 0;
      if (c >= 0xc2 && c <= 0xdf) { need = 1; code = c & 31; }
      else if (c >= 0xe0 && c <= 0xef) { need = 2; code = c & 15; if (c === 0xe0) low = 0xa0; if (c === 0xed) high = 0x9f; }
      else if (c >= 0xf0 && c <= 0xf4) { need = 3; code = c & 7; if (c === 0xf0) low = 0x90; if (c === 0xf4) high = 0x8f; }
      else { bad(); continue; }
      let ok = true;
      for (; need > 0; need--) {
        const d = bytes[i];
        if (d === undefined || d < low || d > high) { ok = false; break; }
        low = 0x80; high = 0xbf;
        code = (code << 6) | (d & 63);
        i++;
      }
      if (ok) text += String.fromCodePoint(code);
      else bad();
    }
    return text;
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
      if (this.#label === "utf-8") return decodeUtf8(bytes, this.#fatal, this.#keepBom);
      let text = "";
      for (let i = 0; i < bytes.length; i++) text += String.fromCharCode(bytes[i]);
      return text;
    }
  }

  // --- base64 ----------------------------------------------------------------------------------------------

  const { toBase64 } = own;
  const nativeFromBase64 = Uint8Array.fromBase64.bind(Uint8Array);
  // `strict` refuses other characters, as atob does; else they are skipped and both alphabets taken, as Node's Buffer does.
  function fromBase64(text, strict) {
    let clean = String(text).replace(/[\t\n\f\r ]/g, "").replace(/={1,2}$/, "");
    if (strict) {
      if (clean.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(clean)) {
        throw new Error("atob: the text is not valid base64");
      }
    } else {
      clean = clean.replace(/-/g, "+").replace(/_/g, "/").replace(/[^A-Za-z0-9+/]/g, "");
      if (clean.length % 4 === 1) clean = clean.slice(0, -1);
    }
    return nativeFromBase64(clean);
  }
  function btoa(text) {
    const s = String(text), bytes = new Uint8Array(s.length);
    for (let i = 0; i < s.length; i++) {
      const c = s.charCodeAt(i);
      if (c > 255) throw new Error("btoa takes characters up to U+00FF: encode with TextEncoder, or Buffer.from(text).toString(\"base64\")");
      bytes[i] = c;
    }
    return toBase64(bytes);
  }
  function atob(text) {
    const bytes = fromBase64(text, true);
    let s = "";
    for (let i = 0; i < bytes.length; i++) s += String.fromCharCode(bytes[i]);
    return s;
  }

  // --- Buffer: the small part scripts use ------------------------------------------------------------------

  class Buffer extends Uint8Array {
    static from(value, encoding = "utf8") {
      if (typeof value !== "string") {
        const source = value instanceof ArrayBuffer ? new Uint8Array(value) : value;
        const made = new Buffer(source.length);
        made.set(source);
        return made;
      }
      const name = String(encoding).toLowerCase();
      if (name === "base64" || name === "base64url") return Buffer.from(fromBase64(value, false));
      if (name === "hex") return Buffer.from((value.match(/[0-9a-f]{2}/gi) ?? []).map((pair) => parseInt(pair, 16)));
      if (name === "latin1" || name === "binary" || name === "ascii") return Buffer.from(Array.from(value, (c) => c.charCodeAt(0) & 255));
      return Buffer.from(encodeUtf8(value));
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
      if (name === "base64") return toBase64(this);
      if (name === "base64url") return toBase64(this).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
      if (name === "hex") return Array.from(this, (b) => HEX[b >> 4] + HEX[b & 15]).join("");
      if (name === "latin1" || name === "binary") return Array.from(this, (b) => String.fromCharCode(b)).join("");
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
      switch (values.kindOf(v)) {
        case "array": {
          const made = keep([]);
          for (let i = 0; i < v.length; i++) made[i] = clone(v[i]);
          return made;
        }
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
        case "typed": return keep(v.slice());
        case "buffer": return keep(v.slice(0));
        case "promise": case "backend": throw new TypeError("structuredClone cannot copy a promise or a backend");
        case "number": case "string": case "boolean": return keep(Object(v.valueOf()));
      }
      if (v instanceof RegExp) return keep(new RegExp(v.source, v.flags));
      const made = keep({});
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
    return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => decodeUtf8(run.slice(1).split("%").map((h) => parseInt(h, 16)), false, true));
  };

  class URLSearchParams {
    #pairs = []; #changed = null;
    constructor(init = "") {
      if (typeof init === "string" || init instanceof String) this.#read(String(init));
      else if (init === null || init === undefined) return;
      else if (typeof init[Symbol.iterator] === "function") for (const [k, v] of init) this.#pairs.push([String(k), String(v)]);
      else for (const k of Object.keys(init)) this.#pairs.push([k, String(init[k])]);
    }
    static #watched(text, changed) {
      const params = new URLSearchParams(text);
      params.#changed = changed;
      return params;
    }
    static watch = (text, changed) => URLSearchParams.#watched(text, changed);
    #read(text) {
      for (const part of text.replace(/^\?/, "").split("&")) {
        if (part === "") continue;
        const at = part.indexOf("=");
        this.#pairs.push(at < 0 ? [formDecode(part), ""] : [formDecode(part.slice(0, at)), formDecode(part.slice(at + 1))]);
      }
    }
    #touch() { if (this.#changed !== null) this.#changed(this.toString()); }
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
    keys() { return this.#pairs.map((p) => p[0])[Symbol.iterator](); }
    values() { return this.#pairs.map((p) => p[1])[Symbol.iterator](); }
    entries() { return this.#pairs.map((p) => [p[0], p[1]])[Symbol.iterator](); }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map((p) => `${formEncode(p[0])}=${formEncode(p[1])}`).join("&"); }
    toJSON() { return this.toString(); }
  }
  const watchParams = URLSearchParams.watch;
  delete URLSearchParams.watch;

  const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21" };
  const keepEscapes = (text, allowed) =>
    text.toWellFormed().replace(/%[0-9a-f]{2}|[^]/giu, (c) => (c.length === 3 && c[0] === "%") || allowed.test(c) ? c : encodeURIComponent(c));
  const PATH_CHARS = /^[A-Za-z0-9\-._~!$&'()*+,;=:@/%[\]|]$/;
  const QUERY_CHARS = /^[A-Za-z0-9\-._~!$&()*+,;=:@/?%[\]|{}`^\\]$/;
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
      this.#params = watchParams(this.#p.search, (query) => { this.#p.search = query === "" ? "" : "?" + query; });
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
        p.username = keepEscapes(user, /^[A-Za-z0-9\-._~!$&()*+,%]$/);
        p.password = keepEscapes(secret.join(":"), /^[A-Za-z0-9\-._~!$&()*+,%]$/);
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
      const origin = base.protocol + "//" + (base.username ? base.username + (base.password ? ":" + base.password : "") + "@" : "")
        + base.hostname + (base.port ? ":" + base.port : "");
      if (input.startsWith("//")) return URL.#parse(base.protocol + input, null);
      if (input.startsWith("/")) return URL.#parse(origin + input, null);
      if (input === "") return { ...base, hash: "" };
      if (input.startsWith("?")) return URL.#parse(origin + base.pathname + input, null);
      if (input.startsWith("#")) return URL.#parse(origin + base.pathname + base.search + input, null);
      return URL.#parse(origin + base.pathname.slice(0, base.pathname.lastIndexOf("/") + 1) + input, null);
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
      this.#params = watchParams(this.#p.search, (text) => { this.#p.search = text === "" ? "" : "?" + text; });
    }
    get hash() { return this.#p.hash; }
    set hash(v) { const h = String(v).replace(/^#/, ""); this.#p.hash = h === "" ? "" : "#" + keepEscapes(h, HASH_CHARS); }
    get searchParams() { return this.#params; }
    get href() {
      const p = this.#p, secret = p.password === "" ? "" : ":" + p.password;
      const user = p.username === "" && p.password === "" ? "" : `${p.username}${secret}@`;
      const slashes = p.opaque || (p.hostname === "" && p.protocol !== "file:" && !(p.protocol in PORTS)) ? "" : "//";
      return p.protocol + slashes + user + this.host + p.pathname + p.search + p.hash;
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }

  function install(global) {
    const put = (name, value) =>
      own.define(global, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
    own.define(Math, "random", { __proto__: null, value: random, writable: true, enumerable: false, configurable: true });
    put("performance", clock);
    put("crypto", crypto);
    put("TextEncoder", TextEncoder);
    put("TextDecoder", TextDecoder);
    put("atob", atob);
    put("btoa", btoa);
    put("Buffer", Buffer);
    put("structuredClone", structuredClone);
    put("URL", URL);
    put("URLSearchParams", URLSearchParams);
  }

  return own.freeze({ __proto__: null, seed, install });
})
