//# satisfies with template literal keys and functions
const api = { "GET /a": (x: number) => x, "POST /b": async () => 1 } satisfies { [K in `${"GET" | "POST"} /${string}`]?: (...a: any[]) => unknown };
return [api["GET /a"](3), await api["POST /b"]()];
//= [3,1]

//# const type parameters and accessor-like names
function lits<const T extends readonly string[]>(...x: T): T { return x }
class A<const T, in U, out V, in out W> { accessor?: T; constructor(public value?: T) {} }
return [lits("a", "b"), new A<number, 1, 2, 3>(1)];
//= [["a","b"],{"value":1}]

//# asserts and is as names
const asserts = (x: any): asserts is string => true as never, is = (is: unknown): is is number => typeof is === "number";
function asserted(asserts: any): asserts asserts { } function f(this: any): asserts this is { a: 1 } { }
return [typeof asserts, is(3), asserted(1)];
//= ["function",true,null]

//# infer with constraints and nested conditionals
type First<T> = T extends [infer H extends string, ...infer R] ? H extends `a${infer X extends number}` ? [X, R] : never : never;
type Awaited2<T> = T extends null | undefined ? T : T extends object & { then(onfulfilled: infer F, ...args: infer _): any } ? F extends ((value: infer V, ...args: infer _) => any) ? Awaited2<V> : never : T;
const x: First<["a1", 2]> = [1, [2]]
return x
//= [1,[2]]

//# mapped types with modifiers and key remapping
type G<T> = { readonly [K in keyof T as K extends string ? `get${Capitalize<K>}` : never]-?: () => T[K] }; type W<T> = { -readonly [P in keyof T]+?: T[P] }; type R = { +readonly [k in string]: k; };
const g: G<{ a?: number }> = { getA: () => 1 }, w: W<{ readonly q: 1 }> = {}
return [g.getA(), w]
//= [1,{}]

//# tuple types with names, rests and optionals
type P = [x: number, y?: string, ...rest: boolean[]]; type Q = readonly [...P, last: 1]; let p: P = [1], q: [a: 1, b: 2] | [] = []; function f(...[a, b = "d", ...c]: P) { return [a, b, c] }
return [p, q, f(1), f(2, "e", true)]
//= [[1],[],[1,"d",[]],[2,"e",[true]]]

//# function types in unions and arrays
let a: (() => void) | null = null, b: (new () => object)[] = [Object], c: Array<(x: number) => x is 1> = [], d: { (): void }[] = [], e: abstract new (...a: any) => any = Object, f: (this: Date, ...r: []) => asserts r = () => {}
type Cb<T = void> = (err: Error | null, data?: T) => void; const g: Cb<number> = (e, d) => d, h = (cb: Cb): void => cb(null)
return [a, b.length, c, d, typeof e, g(null, 4), h(() => 1)]
//= [null,1,[],[],"function",4,1]

//# union types beginning with a bar in every position
let a: | 1 | 2 = 1, b: & { x: 1 } & { y: 2 } = { x: 1, y: 2 }; function f(x: | "a" | "b"): | 1 | 2 { return 1 } const g = (x: | 1): | 2 => 2 as | 2; type U<T extends | 1 = | 1> = | T
return [a, b, f("a"), g(1), <| 3>3, [4] as | number[]]
//= [1,{"x":1,"y":2},1,2,3,[4]]

//# keyof, typeof, unique, readonly and index chains
const o = { a: { b: [1] } } as const; let k: keyof typeof o["a"] = "b", v: (typeof o)["a"]["b"][0] = 1, r: readonly number[][] = [[1]], n: number[][][] = [], t: keyof { [x: string]: 1 } & string = "z", w: typeof o.a.b.length = 1
return [k, v, r, n, t, w]
//= ["b",1,[[1]],[],"z",1]

//# literal types of every sort
let a: -1 | 1n | "s" | true | null | undefined | `t${number}` | 0x1f | 1e3 = -1, b: void = undefined, c: never[] = [], d: object = {}, e: symbol = Symbol.iterator, f: bigint = 1n, g: {} | [] = [], h: "it's" | 'say "x"' = "it's"
return [a, b, c, d, typeof e, String(f), g, h]
//= [-1,null,[],{},"symbol","1",[],"it's"]

//# getters in object types and call signatures
const o: { get a(): number; set a(v: number); b(): void; readonly c: 1; d?(x: string): x is "a"; [k: `x${string}`]: any; new (): Date; <T>(x: T): T } = Object.assign(<T,>(x: T): T => x, { a: 1, b() {}, c: 1 }) as any
return [o(5), o.a, o.c]
//= [5,1,1]

//# async methods and arrows with destructured results
class Svc { private async call<T>(op: string, args?: Record<string, unknown>): Promise<{ data: T; meta?: object }> { return { data: { op, ...args } as unknown as T } } async get({ id, ...rest }: { id: number; [k: string]: unknown }): Promise<{ op: string; id: number }> { const { data: d }: { data: any } = await this.call<any>("get", { id, ...rest }); return d!; } all = async (ids: number[]): Promise<number[]> => (await Promise.all(ids.map((id) => this.get({ id })))).map(({ id }) => id) }
return [await new Svc().get({ id: 1, z: 2 }), await new Svc().all([1, 2])]
//= [{"op":"get","id":1,"z":2},[1,2]]

//# chained calls over lines with casts in between
const r = ([3, 1, 2] as number[])
  .map((x): number => x * 2)
  // only large ones
  .filter((x): x is number => x > 2)!
  .sort((a: number, b: number) => a - b)
  ?.map<string>((x) => `${x}`)
  .join("-") as string
return r
//= "4-6"

//# casts in front of and behind line breaks
const a = (1 as
  number), b = 2 as number
const c = b as
  unknown as
  number
let d = <number>
  c
const e = [1,
  2 as number,
  3!,
] satisfies
  number[]
return [a, b, c, d, e]
//= [1,2,2,2,[1,2,3]]

//# declarations that end without semicolons before keywords
let a: number
let b: string | undefined
const c = a! as number | undefined
function f(): void { }
type T = string
class K { x: number; y = 1 }
interface I { a: 1 }
enum E { A }
declare const z: number
var w: number
if (!c) b = "b"
for (const q of [1]) w = q
return [b, w!, new K(), E.A]
//= ["b",1,{"y":1},0]

//# do while and if else without braces between typed statements
let n: number = 0, s: string = ""
do n++; while (n as number < 3)
if (n > 5) s = "a" as string; else if (n! > 2) s = <string>"b"; else s = "c"
for (let i: number = 0; i < 2; i++) s += i as any; while (n-- > 0) s += n as unknown as string
return s
//= "b01210"

//# async iterators on classes and objects
class Pages<T> implements AsyncIterable<T[]> { constructor(private readonly all: T[], private readonly size: number = 2) {} async *[Symbol.asyncIterator](): AsyncIterator<T[]> { for (let i = 0; i < this.all.length; i += this.size) yield this.all.slice(i, i + this.size) as T[] } }
const o: AsyncIterable<number> = { [Symbol.asyncIterator](): AsyncIterator<number> { let n = 0; return { async next(): Promise<IteratorResult<number>> { return n < 2 ? { done: false, value: n++ } : { done: true, value: undefined as any } }, async return(): Promise<IteratorResult<number>> { return { done: true, value: undefined! } } } } }
const out: any[] = []; for await (const p of new Pages([1, 2, 3])) out.push(p); for await (const x of o) { if (x! > 0) break; out.push(x as number) }
return out
//= [[1,2],[3],0]

//# generators used as pipelines
const take = function* <T>(n: number, it: Iterable<T>): Generator<T, void, undefined> { let i = 0; for (const x of it) { if (i++ >= n) return; yield x } }; function* nat(): Generator<number, never> { for (let i = 0; ; i++) yield i } const map = function* <A, B>(f: (a: A) => B, it: Iterable<A>): Iterable<B> { for (const x of it) yield f(x) }
return [...take<number>(3, map((x: number): number => x ** 2, nat()))]
//= [0,1,4]

//# enums as flags with bit operations
enum Perm { None = 0, Read = 1 << 0, Write = 1 << 1, Exec = 1 << 2, All = Read | Write | Exec, NotRead = ~Read & All }
const has = (p: Perm, q: Perm): boolean => (p & q) === q; let p: Perm = Perm.Read; p |= Perm.Exec; p &= ~Perm.Read
return [Perm.All, Perm.NotRead, has(Perm.All, Perm.Write), p, Perm[p as number], Perm[Perm.Read | Perm.Write], Object.keys(Perm).length]
//= [7,6,true,4,"Exec",null,12]

//# enums keyed by other enums and templates
enum A { X = "x", Y = `${"y"}` } enum B { P = A.X, Q = `${A.X}-q`, R = A.X + "r", S = 1 + 2, T = "a".length } const m: Record<A, number> = { [A.X]: 1, [A.Y]: 2 }; type K = `${A}`; const k: K = "x"
return [B, m, m[k as A], Object.values(A).map((v: A): string => v.toUpperCase())]
//= [{"1":"T","3":"S","P":"x","Q":"x-q","R":"xr","S":3,"T":1},{"x":1,"y":2},1,["X","Y"]]

//# const enums with computed constants and string access
const enum C { A = 1 << 3, B = A | 1, D = "abc".length as any, E = -A, F = (A + B) * 2, G = ~0, H = 7 / 2 }
return [C.A, C.B, C["E"], C.F, C.G, C.H]
//= [8,9,-8,34,-1,3.5]

//# const enums of strings used in switch and templates
const enum Op { Add = "+", Sub = "-" } const f = (o: Op, a: number, b: number): number => { switch (o) { case Op.Add: return a + b; case Op.Sub: return a - b } }
return [f(Op.Add, 1, 2), f("-" as Op, 5, 3), `${Op.Add}`, { [Op.Sub]: 1 }]
//= [3,2,"+",{"-":1}]

//# exported enums, classes and functions without a module value
export enum E { A = 1 } export const enum F { B = 2 } export abstract class G { static s = 3 } export function h<T>(x: T): T { return x } export namespace N { export const z = 5 } export let i: number = 6, { j } = { j: 7 } as any; export type { G as H }; export { E as EE, h as hh };
return [E.A, F.B, G.s, h(4), N.z, i, j]
//= [1,2,3,4,5,6,7]

//# import equals and export assignments of types
import A = Math.max; export import B = Math; declare namespace Ghost { type T = 1 } import T = Ghost.T;
const t: T = 1
return [B.abs(-2), typeof t]
//= [2,"number"]

//# abstract class with index, constructor overload and generic default
abstract class Repo<T extends { id: number } = { id: number }, K = T["id"]> { [key: string]: any; protected items: T[] = []; protected constructor(); protected constructor(...i: T[]); protected constructor(...i: T[]) { this.items = i } abstract find(k: K): T | undefined; abstract get size(): number; static readonly kind: string; add?(t: T): void }
class Mem extends Repo { constructor(...i: { id: number }[]) { super(...i) } find(k: number) { return this.items.find((x) => x.id === k) } get size() { return this.items.length } override add(t: { id: number }): void { this.items.push(t) } }
const r = new Mem({ id: 1 }); r.add({ id: 2 }); return [r.find(2), r.size]
//= [{"id":2},2]

//# readonly and static modifiers in every order
class M { static readonly a = 1; readonly b: number = 2; private static readonly c: string = "c"; protected readonly d?: number; public static async e(): Promise<number> { return 5 } private readonly f = () => M.c; declare readonly g: number; static override = 7; public readonly static2 = 8; protected static get h(): number { return 9 } static *i(): any { yield 10 } public constructor(readonly j = 11) { } out(): any[] { return [M.a, this.b, this.d, this.f(), M.h, this.j] } }
return [new M().out(), await M.e(), M.override, [...M.i()], Object.keys(new M())]
//= [[1,2,null,"c",9,11],5,7,[10],["j","b","d","f","static2"]]

//# parameter properties of every modifier
class P { constructor(public a: number, protected b = 2, private c?: string, readonly d: number[] = [a], public readonly e: { x: number } = { x: b }, private readonly f = (x: number): number => x + a, protected readonly g: "g" | undefined = undefined, h = a as number, ...rest: any[]) { (this as any).i = h + rest.length; } get all() { return [this.a, this.b, this.c, this.d, this.e, this.f(1), this.g] } }
return [new P(1).all, new P(1, 3, "c", [], { x: 0 }, undefined, "g", 4, 5, 6)]
//= [[1,2,null,[1],{"x":2},2,null],{"a":1,"b":3,"c":"c","d":[],"e":{"x":0},"g":"g","i":6}]

//# class fields that use parameter properties
class F { double = this.n * 2; fn = (): number => this.n; static made = 0; constructor(private n: number) { F.made++ } }
return [new F(3).double, new F(4).fn(), F.made]
//= [null,4,2]

//# anonymous and nested classes with types
const mk = (n: number) => class<T = number> { static n = n; v!: T; inner = class Inner { constructor(public o?: T) {} } }; const K = mk(3), k = new K<string>(); export const L = class extends K<number> implements Object { override v: number = 4 }
return [K.n, new k.inner("x"), new L().v]
//= [3,{"o":"x"},4]

//# super property access and calls with generics
class A { m<T>(x: T): T { return x } get p(): number { return 1 } static s<T>(x: T): T[] { return [x] } } class B extends A { override m<T>(x: T): T { return super.m<T>(x)! } override get p(): number { return super.p + (super["p"] as number) } static override s<T>(x: T): T[] { return [...super.s<T>(x), x] } f = (): number => super.p! }
return [new B().m("q"), new B().p, B.s(2), new B().f()]
//= ["q",2,[2,2],1]

//# new target, import meta words and comma in classes
function F(this: any, x?: number): void { this.x = new.target ? 1 : x } class G { t: boolean; constructor() { this.t = new.target === G } }
return [new (F as any)(), new G(), Reflect.construct(F as any, [], Object) as object]
//= [{"x":1},{"t":true},{"x":1}]

//# overload signatures split by comments and exports
/** doc a */ export function f(a: string): string /* end */
// second
export function f(a: number): number; /* third */
export function f(a: any): any { return a }
export default interface Z { q: 1 }
return [f(1), f("s")]
//= [1,"s"]

//# default parameters that reference types and functions
function f<T extends object = {}>(a: T = {} as T, b: keyof T = "x" as any, c: (t: T) => string = (t: T): string => typeof t, { d = 4 }: { d?: number } = {} as { d?: number }): any[] { return [a, b, c(a), d] } const g = (x: number = ((y: number): number => y * 2)(3), z = <any>x): number[] => [x, z]
return [f(), f({ q: 1 }, "q", () => "n", { d: 5 }), g(), g(1, 2)]
//= [[{},"x","object",4],[{"q":1},"q","n",5],[6,6],[1,2]]

//# immediately invoked functions with types
const a = (function <T>(this: void, x: T): T { return x })(1), b = ((x: number): number => x + 1)(1), c = await (async <T,>(x: T): Promise<T> => x)(3), d = (<T,>(x: T) => x)<number>(4), e = new (class<T> { constructor(public v: T) {} })<number>(5).v, f = function* (): Generator<number> { yield 6 }().next().value as number;
!function (): void { }(); void (async (): Promise<void> => { })(); (() => { })(), +function () { return "1" as any }()
return [a, b, c, d, e, f]
//= [1,2,3,4,5,6]

//# delete and optional members with casts
const o: { a?: { b?: number[] } } = { a: { b: [1] } }; delete o.a!.b; delete (o as any)["a"]; const p = { q: 1, r: 2 } as { q?: number; r: number }; delete (<any>p).q; delete p?.q
return [o, p]
//= [{},{"r":2}]

//# assignments to casts and destructuring into them
let a: any, b: unknown, o: any = {}; (a as number) = 1; (<any>b) = 2; ({ x: o.y as any, z: (o.w as any) = 5 } = { x: 3 } as any); [(o.q as any), o.r!] = [6, 7]; (o.s) = 8; for (o.t as any of [9]); for ((o.u) in { k: 1 });
return [a, b, o]
//= [1,2,{"y":3,"w":5,"q":6,"r":7,"s":8,"t":9,"u":"k"}]

//# in operator, instanceof and relational chains with casts
class A { } const a = new A() as any, k = "x" as const;
return [a instanceof (A as any), k in ({ x: 1 } as object), (a as A) instanceof A === true, 1 < (2 as number), (1 as number) < 2, <number>1 < 2, 1 <= <number>1, (3 as any) >> 1, (3 as any) >>> 1, 5 > (<number>4), (k as string) in { x: 1 }]
//= [true,true,true,true,true,true,true,1,1,true,true]

//# non-null and generics beside ternary question marks
const o: any = { a: { b: () => 4 }, c: null }, t = true;
return [o.a! ? 1 : 2, o.a!?.b!() ?? 3, o.c!?.d ? 1 : 0, t ? o.a!.b!() : 0, t ?o.a! :0, o?.a!.b?.()!, o.c ?.x, t?.5:1, o.a ? .1 : 2, (o.a)!?.["b"]!()]
//= [1,4,0,4,{},4,null,0.5,0.1,4]

//# arrow functions whose body begins with a cast or a regex
const a = () => <number>1, b = () => /x/.test("x"), c = (): RegExp => /y/g, d = () => <any>{ a: 1 }, e = () => ({ a: 1 }) as any, f = () => ({}) satisfies object, g = () => [1] as number[], h = () => `t` as const, i = async () => <any>await 1, j = () => <T,>(x: T): T => x, k = () => (<number[]>[1])[0]!, l = () => void 0 as any
return [a(), b(), c().source, d(), e(), f(), g(), h(), await i(), j()(2), k(), l()]
//= [1,true,"y",{"a":1},{"a":1},{},[1],"t",1,2,1,null]

//# template literals with types inside the substitutions
const f = <T,>(x: T): T => x, o: any = { a: 1 };
return `${f<number>(1)} ${o.a as number} ${<any>o.a} ${o.a!} ${((x: number): string => `${x as any}`)(2)} ${[1 as number].map((x): x is number => true)} ${(class A<T> { static s?: number = 3 }).s} ${o satisfies any ? "y" : "n"} ${`${`${1 as 1}`}`}`
//= "1 1 1 1 2 true 3 y 1"

//# objects that look like types and blocks
const a = { b: { c: 1 } }, number = 5, string = "s", any = [1], type = { type: 1 }, o = { number, string, any, type, as: 1, is: 2, x: number, y: any[0], z: string as any }; { number: 1 } { b: { } }
label: { a: 1 }
return [o, a, { a: number }, type.type]
//= [{"number":5,"string":"s","any":[1],"type":{"type":1},"as":1,"is":2,"x":5,"y":1,"z":"s"},{"b":{"c":1}},{"a":5},1]

//# comparison and shift chains in type-like text
const a = 1, b = 2, c = 3, d = 4, T = 5, f = (...x: any[]) => x.length, o = { T: 2 };
return [a<b&&c>d, f(a<b,c>d), a<b||c>(d), [a<T,b>T], a<b?c>d:c<d, a<o.T&&b>o.T, a < b == c > d, f(a<b), f(a>b), a<-1, a>-b, 8>>1<T, a<b===true]
//= [false,2,true,[true,false],false,false,false,1,1,false,true,true,true]

//# jsx-like casts refused by nobody
const x = <string>"a", y = <Array<number>>[1], z = <{ a: number }>{ a: 1 }, w = <const>["k"], v = <typeof x>"b", u = <[number, string]>[1, "a"], t = <() => void>(() => { }), s = <number | string>5, r = <readonly string[]>w;
return [x, y, z, w, v, u, typeof t, s, r]
//= ["a",[1],{"a":1},["k"],"b",[1,"a"],"function",5,["k"]]

//# string enums round trip through maps and json
enum S { Open = "open", Closed = "closed" } const parse = (s: string): S | undefined => (Object.values(S) as string[]).includes(s) ? (s as S) : undefined; const count: { [K in S]?: number } = {}; for (const s of ["open", "open", "x", "closed"]) { const p = parse(s); if (p !== undefined) count[p] = (count[p] ?? 0) + 1 }
return [count, JSON.stringify({ s: S.Open }), S["Closed"]]
//= [{"open":2,"closed":1},"{\"s\":\"open\"}","closed"]

//# typed errors with cause and custom fields
class AppError<C extends string = string> extends Error { constructor(readonly code: C, message: string, public readonly details: Record<string, unknown> = {}, options?: { cause?: unknown }) { super(message, options as any); this.name = new.target.name; Object.setPrototypeOf(this, new.target.prototype) } toJSON(): object { return { code: this.code, message: this.message, ...this.details } } static is(e: unknown): e is AppError { return e instanceof AppError } } class NotFound extends AppError<"NF"> { constructor(what: string) { super("NF", `${what}?`, { what }) } }
try { throw new NotFound("x") } catch (e) { return [AppError.is(e), (e as NotFound).name, JSON.stringify(e), (e as Error).message] }
//= [true,"NotFound","{\"code\":\"NF\",\"message\":\"x?\",\"what\":\"x\"}","x?"]

//# observable state machine
type State = "idle" | "busy"; type Ev = { type: "go"; n: number } | { type: "stop" }; const table: { [S in State]: Partial<{ [E in Ev["type"]]: (e: Extract<Ev, { type: E }>) => State }> } = { idle: { go: (e): State => e.n > 0 ? "busy" : "idle" }, busy: { stop: () => "idle" } };
function step(s: State, e: Ev): State { const f = (table[s] as any)[e.type] as ((e: Ev) => State) | undefined; return f?.(e) ?? s }
return (<Ev[]>[{ type: "stop" }, { type: "go", n: 1 }, { type: "go", n: 0 }, { type: "stop" }]).reduce<State[]>((a, e) => [...a, step(a.at(-1)!, e)], ["idle"])
//= ["idle","idle","busy","busy","idle"]

//# concurrency limiter with queue
class Limit { private active = 0; private readonly q: Array<() => void> = []; constructor(private readonly max: number) { } async run<T>(f: () => Promise<T>): Promise<T> { if (this.active >= this.max) await new Promise<void>((r) => this.q.push(r)); this.active++; try { return await f() } finally { this.active--; this.q.shift()?.() } } }
const l = new Limit(2); let peak = 0, now = 0; const r = await Promise.all([1, 2, 3, 4].map((n) => l.run<number>(async () => { now++; peak = Math.max(peak, now); await null; now--; return n * 2 })));
return [r, peak <= 2]
//= [[2,4,6,8],true]

//# pagination with do while and typed cursors
interface Page<T> { items: T[]; next?: string | null } const pages: Record<string, Page<number>> = { "": { items: [1, 2], next: "b" }, b: { items: [3], next: null } }; const fetchPage = async <T,>(cursor?: string): Promise<Page<T>> => pages[cursor ?? ""] as unknown as Page<T>;
const all: number[] = []; let cursor: string | undefined; do { const { items, next }: Page<number> = await fetchPage<number>(cursor); all.push(...items); cursor = next ?? undefined } while (cursor)
return all
//= [1,2,3]

//# deep merge and type guards
type Obj = { [k: string]: unknown }; const isObj = (v: unknown): v is Obj => typeof v === "object" && v !== null && !Array.isArray(v); function merge<T extends Obj, U extends Obj>(a: T, b: U): T & U { const out: Obj = { ...a }; for (const [k, v] of Object.entries(b)) out[k] = isObj(v) && isObj(out[k]) ? merge(out[k] as Obj, v) : v; return out as T & U }
return merge({ a: { b: 1, c: [1] }, d: 1 }, { a: { b: 2, e: 3 }, d: null })
//= {"a":{"b":2,"c":[1],"e":3},"d":null}

//# csv and table building with regex and tuples
const csv = `id,name,score\n1,"Doe, J",3.5\n2,Ann,\n`; const line = (s: string): string[] => [...s.matchAll(/("([^"]*)"|[^,]*)(?:,|$)/g)].slice(0, 3).map((m): string => (m[2] ?? m[1])!); const [head, ...rows] = csv.trim().split("\n").map(line) as [string[], ...string[][]];
return rows.map((r): Record<string, string | number | null> => Object.fromEntries(head!.map((h, i) => [h, h === "name" ? r[i]! : r[i] ? Number(r[i]) : null] as const)))
//= [{"id":1,"name":"Doe, J","score":3.5},{"id":2,"name":"Ann","score":null}]

//# graph search with maps, sets and tuples
const g: ReadonlyMap<string, readonly [to: string, w: number][]> = new Map<string, [string, number][]>([["a", [["b", 1], ["c", 4]]], ["b", [["c", 1]]], ["c", []]]); function dist(from: string): Map<string, number> { const d = new Map<string, number>([[from, 0]]), todo: string[] = [from]; while (todo.length) { const x = todo.shift()!; for (const [y, w] of g.get(x) ?? ([] as never[])) { const n = d.get(x)! + w; if (n < (d.get(y) ?? Infinity)) { d.set(y, n); todo.push(y) } } } return d }
return Object.fromEntries(dist("a"))
//= {"a":0,"b":1,"c":2}

//# tagged unions with exhaustive never
type Shape = { kind: "c"; r: number } | { kind: "r"; w: number; h: number }; function never(x: never): never { throw new Error("no " + x) } const area = (s: Shape): number => { switch (s.kind) { case "c": return Math.round(Math.PI * s.r ** 2); case "r": return s.w * s.h; default: return never(s) } }; let m = ""; try { area({ kind: "z" } as any) } catch (e) { m = (e as Error).message }
return [area({ kind: "c", r: 2 }), area({ kind: "r", w: 2, h: 3 }), m]
//= [13,6,"no [object Object]"]

//# globalThis augmentations and var declarations
declare global { var shared: number; interface Array<T> { last(): T } } (globalThis as any).shared = 4; declare module "z" { export default function f(): void }
return [(globalThis as any).shared as number]
//= [4]

//# doc comments with types and code in them
/** @type {number} * / not end: interface X {} `t` <T>(x) */ const a: number = 1 /* enum E { A } */; // type T = {
/**
 * @param {Object<string, number>} x - "quoted' `tick
 * @example const y = x as any; // </script> <!-- -->
 */ function f(x: Record<string, number> /* , y: string */): number /* {} */ { return x.a! /* : */ }
return f({ a }) /* trailing */ as /* cast */ number // end
//= 1

//# unusual white space between types
const	a	:	number	=	1; let b : string = "x"; function f (x :number) :number{return x}; type	T=1;class A{private	x :number=1;get	y ():number{return this.x}}
return[a,b,f(2),new A().y]as any[]
//= [1,"x",2,1]

//# deeply nested generics closing together
type A<T> = { v: T }; const m = new Map<string, Map<string, Set<Array<A<A<number>>>>>>(), f = (x: Promise<Array<Map<string, A<() => A<number>>>>>): x is Promise<any> => true, g = <T extends A<A<A<1>>>>(x?: T): T | undefined => x; let z: A<A<number>>= { v: { v: 1 } }, w: A<number[]>[]= [], c = 16>>2>>>1;
return [m.size, f(null as any), g<A<A<A<1>>>>(), z, w, c]
//= [0,true,null,{"v":{"v":1}},[],2]

//# functions returning object types, type literals and predicates without bodies
declare function a(): { b: 1 }; declare function c(x: any): x is { d: 1 }
function e(): { f: number }; function e(): any { return { f: 1 } }
abstract class G { abstract h(): { i: 1 }
abstract j(x: any): x is { k: 1 }; l(): { m: number } { return { m: 2 } } }
return [e(), new (class extends G { h(): any { } j(x: any): x is any { return true } })().l()]
//= [{"f":1},{"m":2}]
