// functions made from text
// ends: value ["string","object","object","object"]
const out = [];
for (const f of [Function, (async () => {}).constructor, (function* () {}).constructor, (async function* () {}).constructor]) { try { out.push(typeof f("return typeof std + typeof os")()); } catch (e) { out.push(e.name); } } return out;
