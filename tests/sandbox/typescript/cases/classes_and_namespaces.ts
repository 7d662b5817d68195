//# namespaces in one another with a variable of their own
namespace A { let n = 1; export function inc(): number { return ++n; } export namespace B { export const q = n + 1; export class K { v = q } } }
return [A.inc(), A.B, new A.B.K().v, A.inc()];
//= [2,{"q":2},2,3]

//# namespace merged with a class and static access
class Money { constructor(readonly cents: number) {} static zero = new Money(0); toString(): string { return Money.format(this); } }
namespace Money { export function format(m: Money): string { return (m.cents / 100).toFixed(2); } export const EUR = "EUR"; export interface Opts { a: 1 } }
return [`${new Money(1234)}`, Money.EUR, Money.zero];
//= ["12.34","EUR",{"cents":0}]

//# namespace merged with a function
function counter(): number { return counter.start + 1; }
namespace counter { export const start = 3; export type T = number; }
return [counter(), counter.start];
//= [4,3]

//# namespace with destructuring exports and functions using them
namespace N { export const { a, b: [c, ...d] } = { a: 1, b: [2, 3, 4] }; export const sum = () => a + c + d.length; }
return [N.a, N.c, N.d, N.sum()];
//= [1,2,[3,4],5]

//# dotted namespaces and aliases
namespace App.Core.Util { export const join = (...p: string[]) => p.join("/"); export enum Mode { On = 1, Off } }
import U = App.Core.Util;
import Mode = U.Mode;
import OnlyType = App.Core.Missing;
return [U.join("x", "y"), Mode.Off, Mode[1]];
//= ["x/y",2,"On"]

//# namespace with only types beside values of the same name
namespace Cfg { export interface Opts { a: number } export type Name = string; }
namespace Empty { }
namespace TypesOnly.Deep { export type Q = 1; declare const z: number; }
const Cfg2: Cfg.Opts = { a: 1 }; const e: Cfg.Name = "n";
return [Cfg2, e, typeof (globalThis as any).TypesOnly];
//= [{"a":1},"n","undefined"]

//# namespace exports async functions, generators and classes with private members
namespace Api {
  const base = "/v1"; let hits = 0;
  export async function get<T>(p: string): Promise<{ url: string; hits: number }> { hits++; return { url: base + p, hits }; }
  export function* ids(n: number): Generator<number> { for (let i = 0; i < n; i++) yield i; }
  export abstract class Base { #t = 1; protected abstract x(): number; get t(): number { return this.#t + this.x(); } }
  export class Impl extends Base { protected x() { return 41; } }
}
return [await Api.get("/a"), await Api.get("/b"), [...Api.ids(3)], new Api.Impl().t];
//= [{"url":"/v1/a","hits":1},{"url":"/v1/b","hits":2},[0,1,2],42]

//# namespace inside which names shadow the outer ones
const v = "outer"; namespace S { export const v = "inner"; export const w = v; { const v = "block"; } export function f(v: string) { return v; } export const x = v; export const y = ((v) => v)("arg"); export const o = { v }; }
return [v, S.w, S.x, S.y, S.f("p"), S.o];
//= ["outer","inner","inner","arg","p",{"v":"inner"}]

//# enums inside a namespace
namespace L { export enum Lv { A = 1 } enum Priv { Z = 9 } export const z = Priv.Z; export const b = Lv.A + 1; export const enum Cn { Q = 5 } export const q = Cn.Q; }
return [L.Lv.A, L.Lv[1], L.b, L.z, L.q, "Priv" in L];
//= [1,"A",2,9,5,false]

//# private names with types
class P { #a: number = 1; #b?: string; readonly #c = 3; static #d: number = 4; #m<T>(x: T): T { return x; } get #g(): number { return this.#a; } set #g(v: number) { this.#a = v; } static #s(): number { return P.#d; } run(o: P): unknown[] { this.#g = 7; this.#a! += 1; return [this.#a, this.#b, this.#c, P.#s(), this.#m<number>(2), #a in o, o.#a, o!.#m("q")]; } }
return new P().run(new P());
//= [8,null,3,4,2,true,1,"q"]

//# static blocks with types and this
class B { static a: number; static readonly log: string[] = []; static { const x: number = 4; type T = number; interface I { } this.a = x as T; B.log.push(`${this.a!}`); } static { for (const q of [1, 2] as const) { this.log.push(String(q)); } } }
return [B.a, B.log];
//= [4,["4","1","2"]]

//# optional methods and fields in classes and literals
class O { a?(): void; b?: () => number; c?<T>(x: T): T; "d-e"?: string; 7?: number; static s?(): void; private f?(x?: number): void; run() { return [this.a?.(), this.b?.(), this.c?.(1), O.s?.(), this.f?.()]; } }
return [new O().run(), Object.keys(new O())];
//= [[null,null,null,null,null],["7","b","d-e"]]

//# getters and setters with types, static and computed
const k = "dyn";
class G { private _v = 1; get v(): number { return this._v; } set v(x: number | undefined) { this._v = x ?? 0; } static get [k](): string { return "s"; } static set [k](v: string) { } protected get ["p" + 1](): number { return 5 } declare readonly q: number; get "quoted"(): number { return 6 } set 8(v: any) { } }
const g = new G(); g.v = undefined;
return [g.v, (G as any).dyn, (g as any).p1, g.quoted];
//= [0,"s",5,6]

//# async generators with delegation and typed for await
async function* nums(n: number): AsyncIterableIterator<number> { for (let i = 0; i < n; i++) { await null; yield i as number; } }
async function* both<T, U>(a: AsyncIterable<T>, b: Iterable<U>): AsyncGenerator<T | U, string, undefined> { yield* a; yield* b; return "end"; }
const out: (number | string)[] = [];
for await (const x of both<number, string>(nums(2), ["a"] as string[])) out.push(x!);
const it = both(nums(0), []); const last: IteratorResult<any, string> = await it.next();
for await (const { v = 1 as number } of [{}, { v: 2 }] as { v?: number }[]) out.push(v);
return [out, last];
//= [[0,1,"a",1,2],{"value":"end","done":true}]

//# statements beginning with brackets behind erased text
let a = [1, 2] as number[]
;[a[0], a[1]] = [a[1]!, a[0]!]
type T = number
[a[0]] = [9]
interface I { x: 1 }
(a as any).push(4)
declare let z: string
`tpl`.length
let q: number
(q as any) = 3
let w = a!
[0]
return [a, q, w]
//= [[9,1,4],3,9]

//# return and throw before types and casts
const f = (): any => { return <any>{ a: 1 } }
const g = () => { return { b: 1 } as any }
const h = (x: unknown) => { if (!x) { throw <Error>new Error("e") } return (x) as number }
const i = (): { (): number } => { return () => 1 }
let m = ""; try { h(0) } catch (e) { m = (e as Error).message }
return [f(), g(), h(2), i()(), m]
//= [{"a":1},{"b":1},2,1,"e"]

//# arrow functions returning typed objects over several lines
const a = (
  x: number,
  y?: string,
): { x: number; y?: string } => ({
  x,
  ...(y ? { y } : {}),
});
const b = async (
  { p, q = 2 }: { p: number; q?: number },
  ...rest: Array<string>
): Promise<[number, number, number]> =>
  [p, q, rest.length];
const c = <
  T extends object,
  K extends keyof T,
>(
  o: T,
  k: K,
): T[K] => o[k];
return [a(1), a(2, "z"), await b({ p: 1 }, "s"), c({ m: 4 }, "m")];
//= [{"x":1},{"x":2,"y":"z"},[1,2,1],4]

//# comments inside types and around erased text
const a /* one */ : /* two */ number /* three */ = /* four */ 1; // five: string
function f</* g */ T /* h */>(x /* i */ : T, /* j */ y? /* k */ : /* l */ number /* m */): /* n */ T /* o */ { return x /* p */ as /* q */ T; }
const b = f /* call */ < /* t */ number /* u */ > /* v */ (2) /* w */ ! /* x */;
type U = /* nothing; */ { a: 1 /* } */; // { b: 2
} // end
const c = [a /* ] */ as number, b!] satisfies /* [ */ number[];
return [a, b, c];
//= [1,2,[1,2]]

//# type arguments before template literals
const tag = <T,>(s: TemplateStringsArray, ...v: T[]): string => s.raw.join("|") + v.join(",");
const o = { t: tag };
return [tag<number>`a${1}b`, o.t<string>`x${"y"}z`, tag<Map<string, number[]>>``];
//= ["a|b1","x|zy",""]

//# instantiation expressions
const id = <T,>(x: T): T => x; class Box<T> { constructor(public v: T) {} static make<U>(u: U) { return new Box<U>(u); } }
const n = id<number>; const B = Box<string>; const fs = [id<string>, id<number>] as const; const o = { f: id<number> };
const mk = Box.make<number>;
const e = new B("q"), g = new (Box<number>)(4), h = new Box<number>;
return [n(1), e, fs[0]("s"), o.f(3), mk(5), g.v, h.v === undefined];
//= [1,{"v":"q"},"s",3,{"v":5},4,true]

//# arrows with predicate returns in arguments and conditionals
const xs: unknown[] = [1, "a", null, 2];
const nums = xs.filter((x): x is number => typeof x === "number"), not = xs.filter((x: unknown): x is null => x === null);
const c = nums.length ? (x: unknown): x is string => typeof x === "string" : (x: unknown): x is number => true;
const d = nums.length > 5 ? (a: number): number => a : async (a: number): Promise<number> => a * 2;
return [nums, not, c("s"), await d(4)];
//= [[1,2],[null],true,8]

//# conditional expressions with colons that are not types
const a = 1, b = 2, c = 3; const t = true as boolean;
const r1 = t ? (a) : (b); const r2 = t ? (a): b; const r3 = !t ? a : (b) ? c : a;
const r4 = t ? (x: number) => x : null; const r5 = t ? { a: (b) } : { b }; const r6 = t ? a as number : b as number;
const r7 = t ? async (x: number): Promise<number> => x : 0; const r8 = t ? <any>a : <any>b; const r9 = t ? a! : b!;
const o = { m: t ? 1 : 2, n(x = t ? 1 : 2): number { return x } };
switch (t ? 1 : 2) { case (1): case (2 as number): { break } default: }
return [r1, r2, r3, r4!(5), r5, r6, await (r7 as any)(6), r8, r9, o.n()];
//= [1,1,3,5,{"a":2},1,6,1,1,1]

//# types spread over many lines before statements
type A =
  | { kind: "a"; v: number }
  | { kind: "b"; v: string }
type F = (
  a: number,
  b: string
) => void
type C<T> = T extends (infer U)[]
  ? U
  : never
type M = {
  readonly [K in keyof A]?: A[K]
}
let x: A = { kind: "a", v: 1 }
type Last = typeof x
[1].forEach(() => { x = { kind: "b", v: "s" } })
return x
//= {"kind":"b","v":"s"}

//# interfaces with calls, constructors, accessors and methods
interface Fn { (a: number): string; new (a: string): Fn; readonly x?: number; get y(): number; set y(v: number); m?<T>(this: Fn, a: T): a is T; [k: string]: any; [Symbol.iterator](): Iterator<number> }
interface G<T = {}, U extends T[] = T[]> extends Array<T>, Pick<Fn, "x"> { }
const f = ((a: number) => "s" + a) as unknown as Fn;
return f(3);
//= "s3"

//# classes that implement, extend generics and call super methods
interface Named<T> { name: T } interface Aged { age?: number }
class Base<T> { constructor(protected v: T) {} get(): T { return this.v; } static create<T>(this: new (v: T) => Base<T>, v: T) { return new this(v); } }
class Kid<T extends string> extends Base<T> implements Named<T>, Aged { name!: T; age? = 3; override get(): T { return (super.get() + "!") as T; } }
const anon = class<T> extends Base<T[]> implements Aged { declare age: number; len(): number { return this.v.length; } };
return [new Kid("k").get(), Kid.create("z").get(), new anon([1, 2]).len(), new Kid("q")];
//= ["k!","z!",2,{"v":"q","age":3}]

//# extends expressions with type arguments
const mixin = <T extends new (...a: any[]) => object>(B: T) => class extends B { mixed = true as const };
class A { a = 1 } class C extends mixin(A) { c = 2 } class D extends (mixin<typeof C>(C) as any) { }
class E extends Map<string, number> implements Iterable<[string, number]> { total(): number { return [...this.values()].reduce((a, b) => a + b, 0); } }
class F extends Array<number> { sum(): number { let s = 0; for (const x of this) s += x; return s; } }
const e = new E([["a", 1], ["b", 2]]);
return [new C(), new (D as any)().c, e.total(), F.from([1, 2, 3]).length, (F.of(4, 5) as F).sum()];
//= [{"a":1,"mixed":true,"c":2},2,3,3,9]

//# functions with destructured typed parameters and defaults
function f({ a, b: { c = 2, ...d } = {} as any, ...r }: { a: number; b?: any; [k: string]: any } = { a: 1 }, [x, , y = 3 as number, ...z]: readonly (number | undefined)[] = [1, 2], ...rest: [s?: string, ...n: number[]]): unknown { return [a, c, d, r, x, y, z, rest]; }
return [f(), f({ a: 2, b: { c: 5, e: 6 }, q: 7 }, [1, 2, undefined, 4], "s", 1, 2)];
//= [[1,2,{},{},1,3,[],[]],[2,5,{"e":6},{"q":7},1,3,[4],["s",1,2]]]

//# this parameters in every kind of function
function a(this: { n: number }): number { return this.n; }
function b(this: { n: number }, x: number, ...y: number[]): number { return this.n + x + y.length; }
function c(this: void) { return typeof this; }
const o = { n: 5, m(this: { n: number }, k?: number) { return this.n + (k ?? 0); }, get g(): number { return this.n; } };
class T { n = 7; m(this: this, x = 1): number { return this.n + x; } static s(this: typeof T) { return new this().n; } }
return [a.call({ n: 1 }), b.call({ n: 1 }, 2, 3), c(), o.m(1), o.g, new T().m(), T.s(), a.length, b.length];
//= [1,4,"undefined",6,5,8,7,0,1]

//# catch bindings, finally and typed errors
class HttpError extends Error { override readonly name = "HttpError" as const; constructor(public readonly status: number, msg?: string, options?: ErrorOptions) { super(msg ?? `HTTP ${status}`, options); } }
const r: string[] = [];
try { throw new HttpError(404, undefined, { cause: "x" }); } catch (e: unknown) { if (e instanceof HttpError) r.push(`${e.status} ${e.message} ${e.name} ${e.cause}`); } finally { r.push("f") }
try { null!.x } catch (e: any) { r.push(e!.constructor.name as string) } try { throw 1 as any } catch { r.push("c") }
return r;
//= ["404 HTTP 404 HttpError x","f","TypeError","c"]

//# optional call chains with generics
const o: any = { f: <T,>(x: T) => x, n: null };
return [o.f?.<number>(1), o?.f<string>("a"), o.n?.g<number>(2), o.f!<number>(3), (o.f as <T>(x: T) => T)<number>(4), o["f"]<number>(5), o?.["f"]?.<string>("s")];
//= [1,"a",null,3,4,5,"s"]

//# new with type arguments and member chains
class A<T> { static B = class<U> { u = 1 }; v?: T; m<T>(x: T) { return x; } }
return [new A<number>().m<string>("q"), new A.B<string>().u, new (class<T> { z = 2 })<number>().z, new Map<string, Set<number>>([["a", new Set<number>([1])]]).get("a")!.size, new Date(0).getTime()];
//= ["q",1,2,1,0]

//# numeric separators, bigint, exponent and optional decimals beside types
const a: number = 1_000, b: bigint = 10n, c = 2 ** -1 as number, d = (<number>-2) ** 2, e = .5, f = 5, g = 0xff as number, h = 1e3!.toFixed(0), i = 1..toFixed!(1);
return [a, String(b), c, d, e, f, g, h, i];
//= [1000,"10",0.5,4,0.5,5,255,"1000","1.0"]

//# typeof import and query types
let a: typeof Math.max = Math.max, b: typeof globalThis, c: typeof import("x"), d: import("y").Z<number>[], e: typeof a extends infer Q ? Q : never;
function f(x: typeof a, y: keyof typeof globalThis, z: typeof x): asserts x is typeof a { }
return [a(1, 2), typeof a, f.length];
//= [2,"function",3]
