"""The guest's side of the sandbox: JavaScript and data, read through importlib.resources.

`prelude.js` is the bridge and `values.js` what it stands on; `encode.js`, `backends.js` and `console.js` are parts of
it; `shims.js` holds the standard helpers; `protocol.json` the message kinds, fields and limit codes that both sides
share. Above: gatemini_sandbox. Below: nothing.
"""
