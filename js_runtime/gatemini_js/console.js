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
    // UTF-8, ended by 0x0A with newlines inside a line written as 0x0B (the host turns them back).
    const room = protocol.console.bytes;
    let at = consoleHead[0];
    const start = at;
    for (let i = 0; i < text.length; i++) {
      let c = own.charCode(text, i);
      if (c >= 0xd800 && c < 0xdc00 && i + 1 < text.length) {
        const d = own.charCode(text, i + 1);
        if (d >= 0xdc00 && d < 0xe000) {
          c = 0x10000 + ((c - 0xd800) << 10) + (d - 0xdc00);
          i++;
        }
      }
      if (c >= 0xd800 && c < 0xe000) c = 0xfffd;
      if (at + 5 > room) {
        consoleHead[2]++;
        return false;
      }
      if (c < 0x80) consoleBytes[at++] = c === 10 ? 11 : c;
      else if (c < 0x800) {
        consoleBytes[at++] = 0xc0 | (c >> 6);
        consoleBytes[at++] = 0x80 | (c & 63);
      } else if (c < 0x10000) {
        consoleBytes[at++] = 0xe0 | (c >> 12);
        consoleBytes[at++] = 0x80 | ((c >> 6) & 63);
        consoleBytes[at++] = 0x80 | (c & 63);
      } else {
        consoleBytes[at++] = 0xf0 | (c >> 18);
        consoleBytes[at++] = 0x80 | ((c >> 12) & 63);
        consoleBytes[at++] = 0x80 | ((c >> 6) & 63);
        consoleBytes[at++] = 0x80 | (c & 63);
      }
    }
    if (at + 1 > room) {
      consoleHead[2]++;
      return false;
    }
    consoleBytes[at++] = 10;
    consoleHead[0] = at;
    consoleHead[1]++;
    return at > start;
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
