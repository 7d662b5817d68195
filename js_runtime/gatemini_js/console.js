// The console: lines into a fixed buffer that the host can read even after a trap.
//
// Buffer: four 32-bit numbers (bytes used, lines, lines dropped, lines cut), then the lines in UTF-8.
(function (values, protocol) {
  "use strict";
  const { own, format } = values;
  const { apply } = own;

  const consoleBuffer = new own.ArrayBuffer(protocol.console.bytes + 16);
  const consoleHead = new own.Int32Array(consoleBuffer, 0, 4); // bytes used, lines, lines dropped, lines cut
  const consoleBytes = new own.Uint8Array(consoleBuffer, 16);

  function writeLine(text) {
    // UTF-8, ended by 0x0A; a newline inside the line is written as 0x0B (the host turns it back).
    const bytes = own.unescape(own.encodeURIComponent(own.toWellFormed(text)));
    let at = consoleHead[0];
    if (at + bytes.length + 1 > protocol.console.bytes) {
      consoleHead[2]++;
      return false;
    }
    for (let i = 0; i < bytes.length; i++) {
      const c = own.charCode(bytes, i);
      consoleBytes[at++] = c === 10 ? 11 : c;
    }
    consoleBytes[at++] = 10;
    consoleHead[0] = at;
    consoleHead[1]++;
    return true;
  }

  let consoleFull = false;
  function log(...args) {
    if (consoleFull) {
      consoleHead[2]++;
      return;
    }
    const most = protocol.console.line;
    let text = format(args, most);
    if (text.length > most) {
      text = own.slice(text, 0, most) + "…";
      consoleHead[3]++;
    }
    consoleFull = !writeLine(text);
  }

  const console = {
    log, info: log, warn: log, error: log, debug: log, trace: log,
    table(rows) { log(rows); },
    dir(value) { log(value); },
    assert(ok, ...args) {
      if (ok) return;
      log("Assertion failed:");
      apply(log, undefined, args);
    },
    group: log, groupEnd() {}, time() {}, timeEnd() {}, count() {},
  };

  return own.freeze({ __proto__: null, console, buffer: consoleBuffer });
})
