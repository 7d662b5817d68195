// Compare words as people order them, and note that locales make no other difference: there is no Intl.
//
// QuickJS compares by code unit, which puts "Zebra" before "apple" and "é" behind "z" where every other engine does
// not. The order here is that of the Unicode root collation as far as letters, digits and ASCII go: first the letters,
// then accents, then case (UTS #10, CLDR root; lower case first). This code may use globals, like shims.js.
(function (values) {
  "use strict";
  const { own } = values;

  // ASCII signs in their order, after the space and before the digits. Others are ignored.
  const SIGNS = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
  const RANKS = new Map(Array.from(SIGNS, (c, i) => [c, "!" + String.fromCharCode(161 + i)]));
  const EXPANDED = { ß: "ss", ẞ: "SS", æ: "ae", Æ: "AE", œ: "oe", Œ: "OE", ø: "o\u0338", Ø: "O\u0338", ł: "l\u0335", Ł: "L\u0335" };
  const LETTERS = /^[a-z0-9 ]*$/i;
  const LONGEST_RUN = 48;

  const decomposed = (text) => text.replace(/[ßẞæÆœŒøØłŁ]/g, (c) => EXPANDED[c]).normalize("NFD");
  const letters = (text) => (LETTERS.test(text) ? text : decomposed(text).replace(/\p{M}+/gu, ""));
  const marks = (text) => (LETTERS.test(text) ? "" : decomposed(text).replace(/\P{M}/gu, "."));

  function counted(digits) {
    // A run of digits as its length and then itself: so longer numbers are larger.
    const number = digits.replace(/^0+(?=.)/, "");
    return String.fromCharCode(47 + Math.min(number.length, LONGEST_RUN)) + number;
  }
  function keyOf(text, numeric) {
    let key = letters(text).toLowerCase();
    if (!LETTERS.test(key)) key = key.replace(/\s/g, " ").replace(/[\0-\x1f!-/:-`{-\x7f]/g, (c) => RANKS.get(c) ?? "");
    return numeric ? key.replace(/[0-9]+/g, counted) : key;
  }

  // A sort asks for the same texts again and again, a million times for a long list: their keys are kept for a while.
  const MOST_KEYS = 200000, LONGEST_KEPT = 200;
  const keys = [new Map(), new Map()];
  function key(text, numeric) {
    const kept = keys[numeric ? 1 : 0];
    let found = kept.get(text);
    if (found !== undefined) return found;
    found = keyOf(text, numeric);
    if (text.length > LONGEST_KEPT) return found;
    if (kept.size === MOST_KEYS) kept.clear();
    kept.set(text, found);
    return found;
  }

  function byCase(a, b) {
    const one = letters(a), other = letters(b);
    for (let i = 0; i < one.length && i < other.length; i++) {
      if (one[i] !== other[i]) return one[i].toLowerCase() === one[i] ? -1 : 1;
    }
    return 0;
  }

  function compare(a, b, numeric, sensitivity) {
    if (a === b) return 0;
    const one = key(a, numeric), other = key(b, numeric);
    if (one !== other) return one < other ? -1 : 1;
    if (sensitivity === "base") return 0;
    const marked = sensitivity === "case" ? ["", ""] : [marks(a), marks(b)];
    if (marked[0] !== marked[1]) return marked[0] < marked[1] ? -1 : 1;
    return sensitivity === "accent" ? 0 : byCase(a, b);
  }

  function install(note) {
    values.expose(String.prototype, "localeCompare", {
      localeCompare(that, locales, options) {
        if (this === null || this === undefined) throw new TypeError("localeCompare called on null or undefined");
        const one = typeof this === "string" ? this : String(this), other = typeof that === "string" ? that : String(that);
        if (locales === undefined && options === undefined) return compare(one, other, false, undefined);
        const numeric = options?.numeric ?? /-u-(?:.*-)?kn(?:-true)?(?:-|$)/.test(String(locales));
        return compare(one, other, Boolean(numeric), options?.sensitivity);
      },
    }.localeCompare);
    const plain = (target, name) => {
      const original = target[name];
      values.expose(target, name, {
        [name](locales, options) {
          if (locales !== undefined || options !== undefined) {
            note(name + " took no notice of its locale and options: there is no Intl here (time zone UTC); format by hand");
          }
          return own.apply(original, this, []);
        },
      }[name]);
    };
    plain(Number.prototype, "toLocaleString");
    plain(BigInt.prototype, "toLocaleString");
    for (const name of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) plain(Date.prototype, name);
  }

  return own.freeze({ __proto__: null, install });
})
