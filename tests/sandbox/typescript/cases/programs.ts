//# unicode escapes in identifiers
const \u0061b = 1; let caf\u00e9: number = 2, \u{62}c = 3; class \u{41}x<T> { \u0070rop: T | null = null; get(): T | null { return this.prop } }
function f(\u0078: number): number { return x as number } type \u0054 = number; interface \u0049 { a: T }
return [ab, café, bc, new Ax<number>().prop, f(4 as \u0054)];
//= [1,2,3,null,4]

//# identifiers of other scripts and dollar signs
const $: number = 1, _ = 2, $_$ = 3, ñ: string = "n", 日本: { 值: number } = { 值: 4 }, ℮ = 5, ａ = 6, ΩΩ = <T,>(x: T): T => x, 𝒳: number = 7;
type Größe = number; interface Ärger { ü: Größe } enum Farbe { Grün = 1, "blau" } const o = { "ключ": 1, ключ2: 日本.值! } satisfies Record<string, number>;
return [$, _, $_$, ñ, 日本, ℮, ａ, ΩΩ<Größe>(1), 𝒳, Farbe.Grün, Farbe[2], o];
//= [1,2,3,"n",{"值":4},5,6,1,7,1,"blau",{"ключ":1,"ключ2":4}]

//# html comments as text and arithmetic
let x: number = 5, y = 3;
const s = "<!-- not a comment -->", t = `<!--${x}-->`, r = /<!--/.test("<!--"), c = x<!--y;
while (x --> 2) { y++ }
return [s, t, r, c, x, y];
//= ["<!-- not a comment -->","<!--5-->",true,false,1,5]

//# strings that hold types and fences
const a: string = "x as any; type T = {", b = 'interface I { a: 1 }', c = `enum E { ${"A" as string} } as const`, d = "```ts\nconst x: number\n```", e = "// not: a comment", f = '/* as */';
const g = `nested ${`inner ${`deep ${1 as number}` as string}` satisfies string} <T>(x: T)`;
return [a, b, c, d, e, f, g];
//= ["x as any; type T = {","interface I { a: 1 }","enum E { A } as const","```ts\nconst x: number\n```","// not: a comment","/* as */","nested inner deep 1 <T>(x: T)"]

//# regular expressions with odd contents
const a = [/[/]/, /\//g, /(?<!a)b/, /[^\]]+/, /\p{L}+/u, /a{2,3}?/y, /[\w-]/, /</, />/, /:\s*number/, /as any/].map((r: RegExp): string => r.source + r.flags);
const b = "a/b/c".split(/\//) as string[], c = (x: number) => /x/.test("x") ? x / 2 / 1 : x, d = 1 /2/ 1, e = [1]!/ 1, f = (4)/2/1;
if (/a/.test("a")) /b/.exec("b"); const g = typeof /x/, h = !/x/.test("y"), i = { r: /}/ }, j = `${/`/.source}`; 
return [a, b, c(4), d, e, f, g, h, i.r.source, j];
//= [["[/]","\\/g","(?<!a)b","[^\\]]+","\\p{L}+u","a{2,3}?y","[\\w-]","<",">",":\\s*number","as any"],["a","b","c"],2,0.5,1,2,"object",true,"}","`"]

//# regex sets and lookbehind
const r = /(?<year>\d{4})-(?<month>\d\d)/u, m = r.exec("on 2024-05 ok")!, { year, month }: { year?: string; month?: string } = m.groups!;
return [year, month, "a1b2".replace(/(?<=[a-z])\d/g, (d: string): string => `<${d}>`), "x".replace(/x/, "$&$&"), [..."a1b22".matchAll(/\d+/g)].map((m): [string, number] => [m[0], m.index!])];
//= ["2024","05","a<1>b<2>","xx",[["1",1],["22",3]]]

//# astral text before types and errors
const s: string = "😀😀" as string, t = `🎉${s satisfies string}` as const, n: number = s.length!; /* 😀 */ const q = [...s].length as number; // 🎉: number
return [s, t, n, q];
//= ["😀😀","🎉😀😀",4,2]

//# commas and trailing commas
const f = (a: number, b: string, ) => [a, b,] as any[], g = <T, U,>(x: T, y: U,): [T, U,] => [x, y,];
const [a, , b,] = [1, 2, 3,] as number[], { c, d, ...e }: any = { c: 1, d: 2, z: 3, };
type T = [a: number, b?: string,]; enum E { A, B, } interface I { a: 1, b: 2, }
const x = (1, 2) as number, y = (f(1, "a",), 3);
return [f(1, "x",), g<number, string,>(1, "y",), a, b, c, d, e, E.B, x, y];
//= [[1,"x"],[1,"y"],1,3,1,2,{"z":3},1,2,3]

//# semicolons everywhere
;;const a: number = 1;;type T = 1;;;interface I {};;class C {;a = 1;;b?: number;;;m() {};};enum E {A};;function f(): void {};;declare var q;;
;;return [a, new C(), E.A];;
//= [1,{"a":1},0]

//# empty constructs
class A { } class B<T> { } interface C { } type D = { }; enum E { } namespace F { } function g(): void { } const h = (): void => { }; abstract class I { }
if (1 as any) { } else { } for (; false as boolean;) { } switch (1 as number) { } try { } catch { } { }
return [Object.keys(new A()), Object.keys(E), g(), h()];
//= [[],[],null,null]

//# nested ternaries with arrows and generics
const pick = (n: number): ((x: number) => number) | null => n > 2 ? (x: number): number => x * n : n > 1 ? (x): number => x : n > 0 ? <T,>(x: T): T => x : null;
const k = (a: any): a is number => a ? true : (b => b)(false) ? true : false;
return [pick(3)!(2), pick(2)?.(5), pick(1)!(7), pick(0), k(1)];
//= [6,5,7,null,true]

//# arrows that return conditional types and functions
const f = (x: number): x extends 1 ? string : number => x as any; const g = (): (() => number) => () => 1; const h = (): (new () => Date) => Date as any;
const i = (a: (b: number) => (c: string) => boolean): typeof a => a, j = (x: { a: () => void }): asserts x => {}, l = async (): Promise<() => Promise<number>> => async () => 2;
return [f(1), g()(), typeof h(), i((b) => (c) => b > c.length)(1)(""), await (await l())()];
//= [1,1,"function",true,2]

//# object literals with typed methods of every kind
const k = "dyn", o = {
  a<T>(x: T): T { return x }, async b(this: any, n?: number): Promise<number> { return n ?? this.z }, *c(): Generator<number> { yield 1 as number },
  async *d(): AsyncGenerator<string> { yield "d" }, get e(): number { return 5 }, set e(v: number) { this.z = v }, [k]: 6 as number, [`${k}2`](): number { return 7 },
  z: 8 as any, "q-r"(x: string): string { return x }, 9(): number { return 9 }, f: function <T>(this: void, x: T): T { return x }, g: async <T,>(x: T): Promise<T> => x, get: 1, set: 2, async: 3, static: 4, await: 5,
} satisfies Record<string, unknown> as any;
const dd: string[] = []; for await (const v of o.d()) dd.push(v); o.e = 20;
return [o.a(1), await o.b(), [...o.c()], dd, o.e, o.dyn, o.dyn2(), o.z, o["q-r"]("s"), o[9](), o.f(3), await o.g(4), o.get + o.set + o.async + o.static + o.await];
//= [1,20,[1],["d"],5,6,7,20,"s",9,3,4,15]

//# spread and rest with casts
const a = [...(new Set([1, 2]) as Iterable<number>), ...[3]!, ...(null as any) ?? []], o = { ...(null as any), ...{ a: 1 } as object, ...([5] as any) };
const f = (...xs: number[]): number => xs.length; const m = Math.max(...(a as number[]), ...<any>[9]);
return [a, o, f(...a, ...a as number[]), m, [..."ab" as string]];
//= [[1,2,3],{"0":5,"a":1},6,9,["a","b"]]

//# exponent, nullish and logical assignments with casts
let a: number | null = null, b = 2 as number, o: { c?: number } = {};
a ??= <number>3; b **= 2 as number; o.c ||= b as number; (o as any).d &&= 1; (a as number) += 1; (<any>b) -= 1; (o!.c!) *= 2; (b!)++; --(a as number); [(a as number), o.c!] = [o.c!, a!];
return [a, b, o, (a ?? 0) + (b as number) ** 2, -(2 ** 2), (-2 as number) ** 2];
//= [8,4,{"c":3},24,-4,4]

//# void, delete, typeof and in with types
const o: any = { a: 1, b: 2 }; class P { #x = 1; static has(o: object): boolean { return #x in o } }
delete (o as any).a; delete o!.b; void (0 as any);
return [o, "a" in (o as object), typeof (o as any).a === "undefined", P.has(new P()), P.has({}), void 0 ?? 1, typeof <any>1, !(1 as any), ~(<number>1), +("3" as any), -"4"!];
//= [{},false,true,true,false,1,"number",false,-2,3,-4]

//# loops with types in their heads
const out: any[] = [];
for (let i: number = 0, n = 2 as number; i < n!; i++) out.push(i as number);
for (const k in <any>{ a: 1 }) out.push(k!); for (const [k, v] of Object.entries({ x: 1 }) as [string, number][]) out.push(k, v);
for (const x of <number[]>[7]) out.push(x); let i: number; for (i = 0 as number; i! < 1; ) { i++ } do { i-- } while (i as any > 0)
for (const { a, b = 2 as number }: any of [{ a: 1 }] as any[]) out.push(a, b);
return out;
//= [0,1,"a","x",1,7,1,2]

//# loops with several bindings
const out: any[] = [];
for (const { a, b = 2 as number } of [{ a: 1 }] as any[]) out.push(a, b);
for (let [x, y]: [number, number] = [0, 3]; x < y; x++, y--) out.push(x, y);
for (var v: any = 1; v < 2; v++); while ((v as number) > 0) v--; out.push(v);
for await (const p of [Promise.resolve(1), 2] as any[]) out.push(p);
return out;
//= [1,2,0,3,1,2,0,1,2]

//# switch with types and blocks
type K = "a" | "b"; const f = (k: K | number): string => { switch (k as any) { case "a" as K: { type Q = 1; const q: Q = 1; return "A" + q } case <any>2: interface R { } return "two"; case ((x: number): number => x)(3): let z: number; z = 3; return `${z!}`; default: enum E { X = "e" } return E.X } };
return [f("a"), f(2), f(3), f("b")];
//= ["A1","two","3","e"]

//# labels with continue and nested functions
const out: string[] = []; a: for (const x of ["p", "q"] as const) { b: for (const y of [1, 2]) { if (y === (2 as number)) continue a; const f = (z: string): void => { c: { if (z === "q") break c; out.push(z + y) } }; f(x) } }
return out;
//= ["p1"]

//# hoisted functions with overloads used before their declaration
const r = add(1, 2), s = join("a"); function add(a: number, b: number): number; function add(...x: number[]): number { return x.reduce((p, c) => p + c) } function join(this: void, ...p: string[]): string { return p.join() }
return [r, s, typeof later]; var later: number = 1
//= [3,"a","undefined"]

//# generators with typed yields and returns
function* g(): Generator<number, string, boolean> { const a: boolean = yield 1; const b = (yield 2 as number) as boolean; yield* [3] as number[]; yield; return (a && b) ? "y" : "n" as string }
const it = g(); const r: any[] = [it.next(), it.next(true), it.next(true), it.next(), it.next()];
const h = function* <T>(x: T): Iterable<T> { yield x!; yield <T>x; yield (x) satisfies T };
return [r, [...h(1)]];
//= [[{"value":1,"done":false},{"value":2,"done":false},{"value":3,"done":false},{"done":false},{"value":"y","done":true}],[1,1,1]]

//# await in odd places with types
const f = async <T,>(x: T): Promise<T> => x;
const a = await f<number>(1) + await f(2)!, b = [await f(3), ...(await f([4])) as number[]], c = { v: await f(5) as number, [await f("k")]: 6 }, d = (await f({ x: { y: 7 } }))!.x.y as number, e = `${await f(8)}`, g = await (await f(f))<number>(9), h = (await f(true)) ? await f(10) : 0, i = !(await f(false)), j = -(await f(3)), k = await f(await f(4)), l = typeof await f("s");
if ((await f(1)) as any) b.push(await f(11)!);
return [a, b, c, d, e, g, h, i, j, k, l];
//= [3,[3,4,11],{"v":5,"k":6},7,"8",9,10,true,-3,4,"string"]

//# promise chains with types
const p: Promise<number> = Promise.resolve(2).then((x: number): number => x + 1).catch((e: unknown): never => { throw e }).finally((): void => {});
const all: [number, string] = await Promise.all([p, Promise.resolve("s")] as const) as any; const { status, value }: any = (await Promise.allSettled<number>([p]))[0]!;
const race = await Promise.race<number | string>([p, new Promise<string>((r): void => void r)]); const w = Promise.withResolvers ? 1 : 0; const any1 = await Promise.any<any>([Promise.reject(1), p]);
return [all, status, value, race, any1, await new Promise<{ a: number }>((resolve: (v: { a: number }) => void, _reject?: (e: any) => void) => resolve({ a: 1 }))];
//= [[3,"s"],"fulfilled",3,3,3,{"a":1}]

//# reduce, groupBy and sort with types
interface Row { id: number; tag: string; v?: number }
const rows: Row[] = [{ id: 1, tag: "x", v: 2 }, { id: 2, tag: "y" }, { id: 3, tag: "x", v: 5 }];
const by = rows.reduce<Record<string, Row[]>>((acc, r) => { (acc[r.tag] ??= []).push(r); return acc; }, {} as Record<string, Row[]>);
const sums = Object.fromEntries(Object.entries(by).map(([k, rs]): [string, number] => [k, rs.reduce((s: number, r: Row) => s + (r.v ?? 0), 0)])) as { [k: string]: number };
const m = new Map<string, Row>(rows.map((r): readonly [string, Row] => [`${r.id}` as const, r])); const top = [...rows].sort((a: Row, b: Row): number => (b.v ?? 0) - (a.v ?? 0))[0]!;
return { by: Object.keys(by), sums, size: m.size, top: top.id, last: rows.at(-1)!.tag, uniq: [...new Set<string>(rows.map(r => r.tag))] };
//= {"by":["x","y"],"sums":{"x":7,"y":0},"size":3,"top":3,"last":"x","uniq":["x","y"]}

//# a cache class with generics and private state
class Cache<K extends string | number, V = unknown> { private readonly map = new Map<K, { v: V; at: number }>(); static #n = 0; constructor(private readonly ttl: number = 60_000, protected now: () => number = (): number => 1000) { Cache.#n++; } get(k: K): V | undefined { const e = this.map.get(k); if (!e || this.now() - e!.at > this.ttl) return undefined; return e.v as V; } set(k: K, v: V): this { this.map.set(k, { v, at: this.now() }); return this; } static get count(): number { return Cache.#n; } *[Symbol.iterator](): IterableIterator<[K, V]> { for (const [k, { v }] of this.map) yield [k, v] as [K, V]; } }
const c = new Cache<string, number>(); c.set("a", 1).set("b", 2);
return [c.get("a"), c.get("z"), [...c], Cache.count];
//= [1,null,[["a",1],["b",2]],1]

//# retry with backoff and discriminated unions
type Ok<T> = { ok: true; value: T }; type Err = { ok: false; error: string }; type Result<T> = Ok<T> | Err;
async function retry<T>(fn: (n: number) => Promise<T>, { times = 3 as number, on }: { times?: number; on?: (e: unknown, n: number) => void } = {}): Promise<Result<T>> { let last: unknown; for (let n = 1; n <= times; n++) { try { return { ok: true, value: await fn(n) } as const; } catch (e) { last = e; on?.(e, n); } } return { ok: false, error: (last as Error)?.message ?? String(last) }; }
const seen: number[] = []; const a = await retry(async (n): Promise<string> => { if (n < 2) throw new Error("no"); return "yes" }, { on: (_, n) => void seen.push(n) }); const b: Result<never> = await retry<never>(async () => { throw "s" }, { times: 1 });
return [a, b, seen, a.ok ? a.value! : (a as Err).error];
//= [{"ok":true,"value":"yes"},{"ok":false,"error":"s"},[1],"yes"]

//# event emitter with mapped types
type Events = { add: [id: number, name?: string]; del: [id: number] };
class Emitter<M extends { [K in keyof M]: unknown[] }> { private hs: { [K in keyof M]?: Array<(...a: M[K]) => void> } = {}; on<K extends keyof M>(k: K, h: (...a: M[K]) => void): () => void { (this.hs[k] ??= [] as any)!.push(h); return (): void => { this.hs[k] = this.hs[k]!.filter((x) => x !== h) } } emit<K extends keyof M>(k: K, ...a: M[K]): number { const l = this.hs[k] ?? []; l.forEach((h) => h(...a)); return l!.length; } }
const e = new Emitter<Events>(), log: any[] = []; const off = e.on("add", (id, name = "?") => { log.push(id, name) }); e.emit("add", 1); e.emit("add", 2, "b"); off();
return [log, e.emit("add", 3), e.emit("del", 1)];
//= [[1,"?",2,"b"],0,0]

//# parser with enums and maps of handlers
enum Tok { Num = "num", Op = "op", End = "end" } interface Token { t: Tok; v?: string }
function* lex(s: string): Generator<Token, void> { const re = /\s*(?:(\d+)|([-+*/()]))/y; let m: RegExpExecArray | null; while ((m = re.exec(s)) !== null) yield m[1] ? { t: Tok.Num, v: m[1]! } : { t: Tok.Op, v: m[2] as string }; yield { t: Tok.End }; }
class Parser { private i = 0; constructor(private readonly toks: readonly Token[]) {} private get cur(): Token { return this.toks[this.i]!; } private eat(v?: string): Token { const t = this.cur; if (v !== undefined && t.v !== v) throw new SyntaxError(`want ${v}`); this.i++; return t; } expr(): number { let l = this.term(); while (this.cur.v === "+" || this.cur.v === "-") l = this.eat().v === "+" ? l + this.term() : l - this.term(); return l; } private term(): number { let l = this.atom(); while (this.cur.v! === "*" || this.cur.v === "/") { const op = this.eat().v!; const r = this.atom(); l = op === "*" ? l * r : l / r; } return l; } private atom(): number { if (this.cur.v === "(") { this.eat("("); const v = this.expr(); this.eat(")"); return v; } return Number(this.eat().v!); } }
return ["1+2*3", "(1+2)*3-4/2"].map((s): number => new Parser([...lex(s)]).expr());
//= [7,7]

//# recursive types and functions
type Json = string | number | boolean | null | Json[] | { [k: string]: Json };
const walk = (j: Json, path: readonly string[] = []): [string, Json][] => j !== null && typeof j === "object" ? (Array.isArray(j) ? (j as Json[]).map((v, i): [string, Json] => [`${i}`, v]) : Object.entries(j as { [k: string]: Json })).flatMap(([k, v]) => walk(v, [...path, k])) : [[path.join("."), j]];
type Deep<T> = T extends object ? { readonly [K in keyof T]: Deep<T[K]> } : T; const d: Deep<{ a: { b: 1 } }> = { a: { b: 1 } } as const;
return [walk({ a: [1, { b: null }], c: "x" }), d];
//= [[["a.0",1],["a.1.b",null],["c","x"]],{"a":{"b":1}}]

//# builders with fluent generics
class Query<T extends object, S extends keyof T = keyof T> { private constructor(private readonly rows: readonly T[], private readonly fs: ReadonlyArray<(t: T) => boolean> = [], private readonly cols?: readonly S[]) {} static from<T extends object>(rows: readonly T[]): Query<T> { return new Query<T>(rows); } where<K extends keyof T>(k: K, op: "=" | ">" | "<", v: T[K]): Query<T, S> { return new Query(this.rows, [...this.fs, (t: T): boolean => op === "=" ? t[k] === v : op === ">" ? t[k] > v : t[k] < v], this.cols); } select<K extends keyof T>(...cols: K[]): Query<T, K> { return new Query<T, K>(this.rows, this.fs as any, cols); } run(): Pick<T, S>[] { return this.rows.filter((r) => this.fs.every((f) => f(r))).map((r) => this.cols ? Object.fromEntries(this.cols.map((c) => [c, r[c]])) as Pick<T, S> : r); } }
return Query.from([{ id: 1, n: "a" }, { id: 2, n: "b" }, { id: 3, n: "c" }]).where("id", ">", 1).select("n").run();
//= [{"n":"b"},{"n":"c"}]

//# date and number formatting with casts
const d: Date = new Date(Date.UTC(2024, 0, 31, 12)), f = (n: number, p = 2 as const): string => n.toFixed(p) as `${number}`;
const days = Array.from({ length: 3 } as ArrayLike<unknown>, (_, i): string => new Date(+d + i * 864e5).toISOString().slice(0, 10)!);
return [d.toISOString(), f(1.005), days, Number("0x1f") as number, parseInt("12px", 10)!, (12345.678).toString(16).slice(0, 4), isNaN(+(undefined as any)), Number.MAX_SAFE_INTEGER];
//= ["2024-01-31T12:00:00.000Z","1.00",["2024-01-31","2024-02-01","2024-02-02"],31,12,"3039",true,9007199254740991]

//# typed arrays, maps and weak collections
const u = new Uint8Array([1, 2, 3] as const), m: ReadonlyMap<string, readonly number[]> = new Map([["a", [1]]] as const), w: WeakMap<object, number> = new WeakMap(); const key = {}; w.set(key, 1);
const b = new Uint8Array(new ArrayBuffer(4)) as Uint8Array; new DataView(b.buffer).setInt16(0, 258); const s: Set<number | string> = new Set<number | string>([1, "a", 1]);
return [[...u], m.get("a")!, w.get(key)!, [...b], [...s], Array.from(u as Iterable<number>, (x): number => x * 2), u.subarray(1)!.length];
//= [[1,2,3],[1],1,[1,2,0,0],[1,"a"],[2,4,6],2]

//# proxies, reflect and symbols with types
const h: ProxyHandler<Record<string, number>> = { get(t: Record<string, number>, k: string | symbol, r?: unknown): number { return (Reflect.get(t, k, r) as number | undefined) ?? (k as string).length } };
const p = new Proxy<Record<string, number>>({ a: 1 }, h); const s: unique symbol = Symbol.for("x") as never; const o: { [s]?: number; [Symbol.toPrimitive](hint: "number" | "string" | "default"): any } = { [s]: 3, [Symbol.toPrimitive](hint) { return hint === "number" ? 7 : hint } };
return [p.a, p.hello, o[s], +(o as any), `${o as any}`, (o as any) + "", Reflect.ownKeys(o).length, s.description];
//= [1,5,3,7,"string","default",2,"x"]

//# json with revivers and replacers
interface P { d: Date; n?: bigint; t: "x" } const j = JSON.stringify({ d: new Date(0), t: "x", u: undefined, f() {} } as Partial<P>, (k: string, v: unknown): unknown => k === "t" ? `${v as string}!` : v, 1 as number);
const back = JSON.parse(j, function (this: any, k: string, v: any): any { return k === "d" ? new Date(v as string) : v }) as P; const arr = JSON.parse("[1,2]") as [number, number];
return [j, back.d.getTime(), back.t satisfies string, arr[1]!, JSON.stringify([undefined, NaN, -0, () => 1] as any[])];
//= ["{\n \"d\": \"1970-01-01T00:00:00.000Z\",\n \"t\": \"x!\"\n}",0,"x!",2,"[null,null,0,null]"]

//# curry, pipe and compose with variadic types
type Fn = (...a: any[]) => any; const pipe = <A extends any[], R>(f: (...a: A) => R, ...fs: Fn[]): ((...a: A) => any) => (...a) => fs.reduce((v: any, g: Fn): any => g(v), f(...a) as any);
const curry = <T extends Fn>(f: T, n: number = f.length): any => function c(this: any, ...a: any[]): any { return a.length >= n ? f.apply(this, a) : (...b: any[]): any => c.call(this, ...a, ...b) };
const memo = <T extends (x: any) => any>(f: T): T & { size(): number } => { const m = new Map<unknown, ReturnType<T>>(); return Object.assign(((x: any) => m.has(x) ? m.get(x)! : (m.set(x, f(x)), m.get(x)!)) as T, { size: (): number => m.size }) };
const sq = memo((x: number): number => x * x); sq(2); sq(2);
return [pipe((a: number, b: number): number => a + b, (x: number) => x * 2, String)(1, 2), curry((a: number, b: number, c: number): number => a + b + c)(1)(2, 3), sq(3), sq.size()];
//= ["6",6,9,2]

//# decorators written as plain functions
function logged<This, Args extends any[], R>(target: (this: This, ...a: Args) => R, name: string): (this: This, ...a: Args) => R { return function (this: This, ...a: Args): R { log.push(name); return target.call(this, ...a); }; }
const log: string[] = []; class S { constructor(private n: number) {} add = logged<S, [number], number>(function (this: S, x) { return this.n + x }, "add"); }
return [new S(1).add(2), log];
//= [3,["add"]]

//# abstract factories and interfaces of constructors
interface Plugin { name: string; run?(x: number): number } interface PluginCtor<P extends Plugin = Plugin> { new (o?: object): P; readonly id: string; (): void }
abstract class Base implements Plugin { abstract name: string; static readonly id: string = "base"; static make<T extends Base>(this: (new () => T) & { id: string }): T & { tag: string } { return Object.assign(new this(), { tag: this.id }); } run?(x: number): number; }
class Dbl extends Base { static override readonly id = "dbl"; name = "Dbl"; override run(x: number): number { return x * 2 } } class Nop extends Base { name = "Nop" }
return [Dbl.make(), Nop.make().tag, Dbl.make().run!(4), new Nop().run?.(1)];
//= [{"name":"Dbl","tag":"dbl"},"base",8,null]
