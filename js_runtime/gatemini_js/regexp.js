// Refuse regular expressions made at run time that the engine reads otherwise than ECMAScript; those written in the code
// are refused before it runs. QuickJS takes the flag v for no flag at all, and under i with u it folds the case of some
// classes too late. This code may use globals, like shims.js.
(function (values) {
  "use strict";
  const { own } = values;

  const CLASSES = /\[(?:\\[^]|[^\]\\])*\]/g;
  const OF_SETS = /\\[pPqDSW]|\\u\{|[\ud800-\udfff]|\[\^|\[(?:\\[^]|[^\]\\])*?(?:\[|&&|--)/;
  const OF_SETS_BY_CASE = /\[|\\[wbu]|[^\0-\x7f]/;
  const BY_CASE = /\\[pP]\{(?:(?:gc|General_Category)=)?(?:L[ult]\}|Uppercase|Lowercase|Titlecase|Upper\}|Lower\}|ASCII\}|Changes_When_|CW)/;
  const NO_WORD_IN_CLASS = /\[(?:\\[^]|[^\]\\])*?\\W/;

  function refused(source, flags) {
    const outside = source.replace(CLASSES, "");
    if (flags.includes("v")) {
      const sets = OF_SETS.test(source) || /\./.test(outside.replace(/\\[^]/g, ""));
      return sets || (flags.includes("i") && OF_SETS_BY_CASE.test(source)) ? "flag v" : "";
    }
    return flags.includes("u") && flags.includes("i") && (BY_CASE.test(outside) || NO_WORD_IN_CLASS.test(source)) ? "flags i and u" : "";
  }

  function install(global) {
    const Engine = RegExp;
    function Checked(pattern, flags) {
      if (typeof flags === "string" && (flags.includes("v") || flags.includes("u"))) {
        const source = pattern instanceof Engine ? pattern.source : String(pattern);
        const which = refused(source, flags);
        if (which !== "") {
          const use = which === "flag v" ? "write the flag u in place of v, without classes in classes, && and --" : "leave out the flag i, or write a property as [\\p{…}] and \\W as [^\\w]";
          throw new SyntaxError("this sandbox's engine does not match /" + source.slice(0, 60) + "/ under the " + which + " as ECMAScript says: " + use);
        }
      }
      if (new.target === undefined && flags === undefined && pattern instanceof Engine && pattern.constructor === Checked) return pattern;
      return new.target === undefined ? Engine(pattern, flags) : Reflect.construct(Engine, [pattern, flags], new.target);
    }
    Checked.prototype = Engine.prototype;
    for (const key of Reflect.ownKeys(Engine)) {
      if (key !== "prototype") own.define(Checked, key, Object.getOwnPropertyDescriptor(Engine, key));
    }
    values.expose(Engine.prototype, "constructor", Checked);
    values.expose(global, "RegExp", Checked);
  }

  return own.freeze({ __proto__: null, install });
})
