// The error that a failed tool call rejects with. The rules of values.js hold.
(function (values) {
  "use strict";
  const { define, Error } = values.own;

  return class ToolError extends Error {
    constructor(message, fields) {
      super(message);
      define(this, "name", { __proto__: null, value: "ToolError", writable: true, configurable: true });
      const put = (key, value) =>
        define(this, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
      if (typeof fields === "object" && fields !== null) {
        if (typeof fields.name === "string") this.name = fields.name;
        put("tool", fields.tool);
        put("backend", fields.backend);
        if (fields.code !== undefined && fields.code !== null) put("code", fields.code);
        if (fields.structured !== undefined && fields.structured !== null) put("structured", fields.structured);
        if (typeof fields.hint === "string") put("hint", fields.hint);
      }
    }
  };
});
