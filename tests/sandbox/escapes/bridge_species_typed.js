// species of typed arrays and buffers
// ends: value [{"t":[1,2]}]
class T extends Uint8Array { static get [Symbol.species]() { return Float64Array; } } class B extends ArrayBuffer { static get [Symbol.species]() { return Object; } } try { new B(8).slice(0); } catch {} return [await demo.echo({ t: new T([1, 2]) })];
