"""The guest's side of the sandbox: JavaScript and data, read through importlib.resources.

`prelude.js` is the bridge, of which `encode.js`, `backends.js`, `console.js`, `timers.js` and `tool_error.js` are parts; all use `values.js`.
`shims.js`, `regexp.js` and `locale.js` hold standard helpers. `protocol.json` has the message kinds, fields and limit codes that both
sides share.
"""
