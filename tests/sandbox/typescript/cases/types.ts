//# everyday types
interface Row<T extends string = string> { id: T; n?: number }
type Maybe<T> = T | null;
function first<T>(xs: readonly T[]): Maybe<T> { return xs[0] ?? null; }
const rows = ([{ id: "a", n: 2 }, { id: "b" }]) as Row[];
const total: number = rows.map((r): number => r.n!).filter((n): n is number => typeof n === "number").reduce((s, n) => s + n, 0);
return { first: first<Row>(rows)!.id, total };
//= {"first":"a","total":2}

//# generic calls and comparisons
const a = 1, b = 2, c = 3;
function f<T>(x: T): T { return x; }
const g = f<number>;
return [f<string>("x"), g(2), a < b, a < b && b > c, (a < b) === (c > (b)), [a < b, c > b], new Map<string, number[]>([["k", [1]]]).get("k")];
//= ["x",2,true,false,true,[true,true],[1]]

//# nested generics and shift operators
const m: Map<string, Map<string, Array<Record<string, number>>>> = new Map<string, Map<string, Array<Record<string, number>>>>();
m.set("a", new Map([["b", [{ c: 8 >> 1 }]]]));
const shift = 16 >>> 2 >> 1;
return [m.get("a")!.get("b")![0]!.c, shift];
//= [4,2]

//# as chains
const value = { a: { b: [1, 2, 3] } } as unknown as { a: { b: readonly number[] } };
const list = value.a.b as any as number[];
return (list as number[]).map((x) => (x as any as number) + 1 as number).length + (value as any).a.b[1];
//= 5

//# satisfies and const
const routes = { home: "/", about: "/about" } as const satisfies Record<string, `/${string}`>;
const keys = Object.keys(routes) as (keyof typeof routes)[];
return keys.map((k) => routes[k] satisfies string);
//= ["/","/about"]

//# angle casts
const x = <any>{ a: 1 };
const y = (<number>x.a) + 1;
const z = () => <any>{ q: 2 };
const w = <unknown>[1, 2] as number[];
return [x.a, y, z().q, w.length, (<any>x)["a"]];
//= [1,2,2,2,1]

//# angle cast over lines after return
function f() {
  return <
    Record<string, number>
  >{ a: 1 };
}
return f();
//= {"a":1}

//# non-null everywhere
const o: { p?: { q?: number[] } } = { p: { q: [1, 2] } };
o.p!.q![0]! += 4;
o!.p!.q!.push(9)!;
let n: number | undefined = 3;
n!++;
return [o.p!.q, n!, o?.p!.q!.length, !o!.p];
//= [[5,2,9],4,3,false]

//# optional chaining and non-null keep the chain short
const o: any = null;
return [o?.a!.b, o?.[0]!.c, o?.f!().x];
//= [null,null,null]

//# definite assignment and optional parameters
let later!: number;
later = 4;
function f(a?: number, b: string = "d", ...rest: number[]): string { return `${a ?? "-"}${b}${rest.length}`; }
const h = (a?: number, b?: string): string => `${a}${b}`;
return [later, f(), f(1, "x", 2, 3), h(1)];
//= [4,"-d0","1x2","1undefined"]

//# this parameter
function size(this: { n: number }, extra: number): number { return this.n + extra; }
function only(this: { n: number }) { return this.n; }
const o = { n: 2, m(this: { n: number }, k: number,) { return this.n * k; } };
return [size.call({ n: 1 }, 2), only.call({ n: 7 }), o.m(4)];
//= [3,7,8]

//# overloads
function f(a: string): string;
function f(a: number): number;
function f(a: any): any { return typeof a === "string" ? a + "!" : a + 1; }
class C {
  m(a: string): string;
  m(a: number): number
  m(a: any): any { return [a]; }
  constructor();
  constructor(x?: number) { this.x = x ?? 5; }
  x: number;
}
return [f("a"), f(1), new C().m(3), new C().x];
//= ["a!",2,[3],5]

//# type guards and assertions
function isS(x: unknown): x is string { return typeof x === "string"; }
function assert(x: unknown, m?: string): asserts x { if (!x) throw new Error(m); }
function assertN(x: unknown): asserts x is number { assert(typeof x === "number"); }
class K { ok = true; isOk(): this is { ok: true } { return this.ok; } }
const arrow = (x: unknown): x is number => typeof x === "number";
assertN(3);
return [isS("a"), isS(1), new K().isOk(), arrow(2)];
//= [true,false,true,true]

//# index signatures, mapped, conditional, infer, template literal types
type A = { readonly [K in keyof { a: 1; b: 2 }]?: K extends "a" ? `x${K}` : never };
type Un<T> = T extends Promise<infer U extends string> ? U : T extends (...args: infer P) => any ? P : never;
type M = { -readonly [K in "a" | "b" as `get${Capitalize<K>}`]-?: () => void };
type Fn = { (a: number): string; new (a: number): Date; readonly x: number; method?(): void; get z(): number; set z(v: number) };
type T = [a: string, b?: number, ...rest: boolean[]];
type Ab = abstract new (...args: any[]) => object;
const v: A = { a: "xa" };
return v;
//= {"a":"xa"}

//# unique symbol, keyof typeof, import types
declare const tag: unique symbol;
type Tagged = { [tag]: true } & typeof globalThis.Math;
let q: typeof Math.PI | import("./x").Y<string> = 3;
return q;
//= 3

//# function types in annotations
const f: (a: number, b?: (x: string) => void) => (c: number) => number = (a) => (c) => a + c;
const g: new () => Date = Date;
const h: typeof f = f;
let k: { (x: number): number } = (x) => x, l: Array<() => void> = [];
return [f(1)(2), typeof g, h(3)(4), k(5), l.length];
//= [3,"function",7,5,0]

//# arrows with generics and return types
const id = <T,>(x: T): T => x;
const id2 = <T extends object>(x: T) => x;
const pair = <A, B = A>(a: A, b?: B): [A, B | undefined] => [a, b];
const as1 = async <T>(x: T): Promise<T> => x;
const ret = (): { a: number } => ({ a: 1 });
const fnr = (): (() => number) => () => 5;
const cond = (x: boolean): string => x ? "y" : "n";
return [id(1), id2({ a: 1 }), pair(1, 2), await as1(4), ret(), fnr()(), cond(true)];
//= [1,{"a":1},[1,2],4,{"a":1},5,"y"]

//# arrow return type over lines
const f = (
  a: number,
  b: number,
): {
  sum: number;
  list: number[];
} => ({ sum: a + b, list: [a, b] });
const g = async <
  T extends object,
  U = T,
>(
  x: T,
): Promise<
  U | T
> => x;
const h = async <
  T>(x: T) => x;
return [f(1, 2), await g({ z: 1 }), await h(3)];
//= [{"sum":3,"list":[1,2]},{"z":1},3]

//# generic arrow over lines after return
const make = () => {
  return <
    T,
  >(x: T): T => x;
};
return make()(6);
//= 6

//# ternaries with types
const a: number = 1;
const b = a ? (x: number): number => x + 1 : (x: number): number => x - 1;
const c = a > 0 ? (a as number) : <number>a;
const d = a ? ((b)) : c;
return [b(1), c, typeof d];
//= [2,1,"function"]

//# destructuring with types
const { a, b: { c = 2, ...rest }, ...more }: { a: number; b: { c?: number; d: number }; e: string } = { a: 1, b: { d: 3 }, e: "x" };
const [p, , q = 5]: [number, number, number?] = [1, 2];
function f({ x, y = 2 }: { x: number; y?: number }, [z]: number[] = [9]): number { return x + y + z; }
for (const { k, v } of [{ k: 1, v: 2 }] as { k: number; v: number }[]) { if (k > v) throw 1; }
for (const [key, val] of Object.entries({ a: 1 }) as [string, number][]) { if (!key) throw val; }
return [a, c, rest, more, p, q, f({ x: 1 })];
//= [1,2,{"d":3},{"e":"x"},1,5,12]

//# catch with annotation
try { throw new Error("boom"); } catch (e: unknown) { return (e as Error).message; } finally { }
//= "boom"

//# let without initialiser and unions over lines
let a: string | number
  | undefined
  | null;
let b:
  | "x"
  | "y" = "x";
type L =
  | { kind: "a" }
  | { kind: "b" };
a = 1;
return [a, b];
//= [1,"x"]

//# interface and type in blocks, loops and functions
if (true) { interface X { a: number } type Y = X; const v: Y = { a: 1 }; if (v.a !== 1) throw 1; }
for (let i: number = 0; i < 2; i++) { type Z = number; const z: Z = i; }
switch (1 as number) { case 1: { type Q = 1; } default: interface W {} }
function f() { interface In { a: 1 } return 8; interface After {} }
return f();
//= 8

//# declare
declare const API: string;
declare let x1: number, x2: string;
declare function external(a: number): void;
declare class Ext { a: number; m(): void }
declare module "foo" { export const y: number; }
declare namespace NS { const z: number; }
declare enum DE { A, B }
declare global { interface Window { a: 1 } }
declare var process: any;
return typeof API + typeof external + typeof x1;
//= "undefinedundefinedundefined"

//# labels, regex and division next to types
const n: number = 10;
const r: RegExp = /<T>(a: b)\/[/]/g;
const d = n / 2 / <number>1;
outer: for (const a of [1, 2] as const) { for (const b of [1]) { if (a === 2) break outer; continue outer; } }
return [r.source, d, (n as number) / 2, n! / 5];
//= ["<T>(a: b)\\/[/]",5,5,2]

//# strings and templates full of type syntax
const s = "let x: number = <T>y as any!; enum E {}";
const t = `as ${"x" as string} : ${((a: number): number => a)(1)} interface {}`;
// let z: number = 1 as any
/* enum F { A } */
const u = 'export default function(a?: b) {}';
return [s.length, t, u];
//= [39,"as x : 1 interface {}","export default function(a?: b) {}"]

//# object members with types
const o = {
  a: 1 as number,
  m<T>(x: T): T { return x; },
  async am(x?: number): Promise<number> { return x ?? 1; },
  *g(n: number): Generator<number> { yield n; },
  get v(): number { return 2; },
  set v(x: number) { this.a = x; },
  ["c" + 1 as string]: <any>3,
  arrow: (x: number): number => x,
  fn: function <T>(this: any, x: T): T { return x; },
};
o.v = 9;
return [o.a, o.m<string>("q"), await o.am(), [...o.g(4)], o.v, (o as any).c1, o.arrow(1), o.fn(2)];
//= [9,"q",1,[4],2,3,1,2]

//# spread, call and new with type arguments
class Box<T> { constructor(readonly v?: T) {} static of<U>(u: U): Box<U> { return new Box<U>(u); } }
const b = new Box<number>;
return [Box.of<string>("x").v, new Box<number>(1).v, new Array<number>(3).length, b.v === undefined];
//= ["x",1,3,true]

//# tagged templates and optional calls with type arguments
const tag = <T,>(s: TemplateStringsArray, ...v: T[]): string => s.raw.join("|") + v.join();
const o: any = { f: <T,>(x: T) => x };
return [tag<number>`a${1}b${2}`, o.f?.<number>(3), o.g?.<number>(3)];
//= ["a|b|1,2",3,null]

//# async iteration with types
async function* gen(): AsyncGenerator<number, void, unknown> { yield 1; yield 2; }
const out: number[] = [];
for await (const x of gen() as AsyncIterable<number>) out.push(x);
return out;
//= [1,2]

//# accessors, static blocks, private names
class A {
  static #count: number = 0;
  readonly #v: number;
  static readonly list: readonly number[] = [1];
  static { A.#count = 5; }
  constructor(v: number) { this.#v = v; }
  get v(): number { return this.#v; }
  set v(x: number) {}
  static get count(): number { return A.#count; }
  has(o: object): boolean { return #v in o; }
}
return [new A(3).v, A.count, A.list, new A(1).has(new A(2))];
//= [3,5,[1],true]

//# class modifiers
abstract class Shape<T = number> implements Iterable<T>, Other {
  public static readonly kind: string = "shape";
  protected abstract readonly name: string;
  private _n?: number;
  declare readonly ghost: string;
  [key: string]: any;
  abstract area(): number;
  public abstract get half(): number;
  protected constructor(n?: number) { this._n = n; }
  public async describe(this: Shape, p?: string): Promise<string> { return `${p ?? ""}${this.name}${this.area()}`; }
  *[Symbol.iterator](): Iterator<any> { yield this._n; }
}
class Sq extends Shape<number> implements A.B<C>, D {
  override readonly name = "sq";
  public constructor(private readonly side: number) { super(side); }
  override area(): number { return this.side ** 2; }
  get half(): number { return this.area() / 2; }
}
interface Other {}
const s = new Sq(3);
return [await s.describe("a:"), s.half, [...s], Object.keys(s), Sq.kind];
//= ["a:sq9",4.5,[3],["_n","side","name"],"shape"]

//# field order with parameter properties
class P { y = 1; z: number; constructor(public x: number, protected readonly w = 2, plain?: string) { this.z = 3; } }
class Q extends P { k = 5; constructor(public own: string) { super(7); this.k = 6; } }
class R extends P { constructor(public r: number) { console.log("before"); super(1) } }
class S extends P { constructor(public s: number) { if (s) { console.log("nested"); } super(4); } }
return [JSON.stringify(new P(1)), JSON.stringify(new Q("o")), JSON.stringify(new R(5)), JSON.stringify(new S(6))];
//= ["{\"x\":1,\"w\":2,\"y\":1,\"z\":3}","{\"x\":7,\"w\":2,\"y\":1,\"z\":3,\"own\":\"o\",\"k\":6}","{\"x\":1,\"w\":2,\"y\":1,\"z\":3,\"r\":5}","{\"x\":4,\"w\":2,\"y\":1,\"z\":3,\"s\":6}"]

//# parameter properties over lines with directives
class P {
  constructor(
    private readonly a: number,
    /** doc */ public b?: string,
    readonly c: number[] = [1, 2],
  ) {
    this.d = this.a;
  }
  d: number;
}
return JSON.stringify(new P(4, "x"));
//= "{\"a\":4,\"b\":\"x\",\"c\":[1,2],\"d\":4}"

//# class expressions
const A = class<T> { x: T; constructor(x: T) { this.x = x; } };
const B = class Named<T> extends A<T> implements Iterable<T> { [Symbol.iterator]: any; private q = 1; };
return [new A(1).x, Object.keys(new B(2))];
//= [1,["x","q"]]

//# mixins and generics in heritage
type Ctor<T = {}> = new (...args: any[]) => T;
function Tagged<B extends Ctor>(Base: B) { return class extends Base { tag: string = "t"; }; }
class Plain { n = 1; }
class Mixed extends Tagged(Plain) {}
class G<T> extends Map<string, T> {}
return [JSON.stringify(new Mixed()), new G<number>([["a", 1]]).size];
//= ["{\"n\":1,\"tag\":\"t\"}",1]

//# semicolon-less class members
class A {
  x: number
  ["y"]: string = "q"
  z = 1 as number
  private ["w"] = 2
  readonly [Symbol.toStringTag]: string = "A"
  abc?: string
  private *gen() { yield 1 }
  public async am() { return 2 }
  n = 5
  static readonly [`s`] = 3
  q!: number
  *gen2(): Generator<number> { yield 3 }
}
const a = new A() as any
return [Object.keys(a), [...a.gen()], await a.am(), (A as any).s, [...a.gen2()], a.n]
//= [["x","y","z","w","abc","n","q"],[1],2,3,[3],5]

//# no semicolons anywhere
interface X { a: number }
let a: number
;[a] = [3]
const b = a as number
;(b)
type Y = number
let c = { b } as any
const d = [1, 2, 3]
type Z = Y
;[c.b] = d
declare const q: number
const e = c.b!
;`t`.length
return [a, b, c, e]
//= [3,3,{"b":1},1]

//# erased statement between a value and a parenthesis
let log: number[] = []
const f = (x: number) => log.push(x)
interface Foo { a: 1 }
(f)(1)
type T = string
[7].forEach(f)
function g(): void
function g(): any { }
(f)(2)
declare var z: any
(f)(3)
return log
//= [1,7,2,3]

//# as at the end of a line
const xs: number[] = []
const a = xs as number[]
(() => { xs.push(1) })()
const b = a as any
;`x`.trim()
const n = xs.length as number
return [xs, n]
//= [[1],1]

//# as before a bracket on the next line
const xs: number[] = [3, 1]
const a = xs as number[]
[1, 2].map((x) => xs.push(x))
let b = 1 as number
+1
const c = { k: 2 } satisfies object
[xs[0]] = [8]
let t: string[]
[xs[1]] = [9]
return [xs, a.length, b, c]
//= [[8,9,1,2],4,2,{"k":2}]

//# annotation before a bracket on the next line
const xs: number[] = [0, 0]
let a: number
[xs[0], xs[1]] = [4, 5]
var b: Array<string>
(() => { xs.push(6) })()
return xs
//= [4,5,6]

//# non-null at the end of a line
let x: number | null = 1
const f = (n: number) => n
const a = x!
;(f)(2)
let b = x!
const y = [x!, f(3)!]
return [a, b, y]
//= [1,1,[1,3]]

//# comma and colon heavy conditionals
const a: boolean = true, b = 1;
const v = a ? b : (b as number) ? <number>2 : 3;
const f = a ? (b): number => b : null;
return [v, f!(3)];
//= [1,3]

//# keywords as names
const type = 1, of = 2, as = 3, is = 4, namespace = 5, module = 6, declare = 7, abstract = 8, readonly = 9, keyof = 10, infer = 11, asserts = 12, override = 13, satisfies = 14, unique = 15, global = 16, any = 17, number = 18, from = 19, get = 20, set = 21, out = 22;
const o = { type, as, is, enum: 1, interface: 2, class: 3, get, set, async: 4, static: 5 };
type type2 = number;
return [type + of + as + is + namespace + module + declare + abstract + readonly + keyof + infer + asserts + override + satisfies + unique + global + any + number + from + get + set + out, o.enum + o.interface, o.type];
//= [253,3,1]

//# variance, const type parameters, accessors in interfaces
interface V<in out T, out U = T> { get x(): T; set x(v: T); y: U }
const f = <const T extends readonly unknown[]>(x: T): T => x;
function g<const T>(x: T) { return x; }
class W<in T> { m(x: T) {} }
return [f([1, 2]), g({ a: 1 })];
//= [[1,2],{"a":1}]

//# enums basic
enum A { X, Y, Z = 10, W }
enum S { a = "x", b = 'y', c = `z` }
enum H { A = 1, B = A << 1, C = A | B, D = C * 2 + 1, E = -1, F, G = ~1, "quoted-name" = 5, H }
return [A, S, H, A[0], A.X, S.a, H["quoted-name"], A[A.W]];
//= [{"0":"X","1":"Y","10":"Z","11":"W","X":0,"Y":1,"Z":10,"W":11},{"a":"x","b":"y","c":"z"},{"0":"F","1":"A","2":"B","3":"C","5":"quoted-name","6":"H","7":"D","A":1,"B":2,"C":3,"D":7,"E":-1,"-1":"E","F":0,"G":-2,"-2":"G","quoted-name":5,"H":6},"X",0,"x",5,"W"]

//# enums computed
enum C { A = "abc".length, B = Math.max(1, 2), D = (1 + 2) * 3, E }
const base = 4;
enum D { P = base, Q = P + 1, R = D.Q * 2 }
enum Str { A = "a", B = A, C = `${A}-${B}` }
return [C, D, Str];
//= [{"2":"B","3":"A","9":"D","10":"E","A":3,"B":2,"D":9,"E":10},{"4":"P","5":"Q","10":"R","P":4,"Q":5,"R":10},{"A":"a","B":"a","C":"a-a"}]

//# enums merged and in blocks
enum A { X = 1 }
enum A { Y = 5, Z }
{ enum A { Q = "in" } if (A.Q !== "in") throw 1; }
function f() { enum L { One = 1 } return L.One; }
return [A, f()];
//= [{"1":"X","5":"Y","6":"Z","X":1,"Y":5,"Z":6},1]

//# const enums
const enum E { A = 1, B = A * 2, C = "s" as any, D = B }
const enum F { X = 7, Y = X + 1, Z }
return [E.A, E.B, E.D, F.Y, F.Z, F["X"]];
//= [1,2,2,8,9,7]

//# enum with comments, trailing comma, over lines
enum Level {
  // low
  Low, /* mid */ Mid = 5,
  /** high */
  High = Mid
    + 2,
  Last,
}
return [Level, Level[7]];
//= [{"0":"Low","5":"Mid","7":"High","8":"Last","Low":0,"Mid":5,"High":7,"Last":8},"High"]

//# empty enum, negative and float members
enum Empty {}
enum N { A = -5, B, C = 1.5, D, E = 0x10, F, G = 1e3, H }
return [Empty, N];
//= [{},{"16":"E","17":"F","1000":"G","1001":"H","A":-5,"-5":"A","B":-4,"-4":"B","C":1.5,"1.5":"C","D":2.5,"2.5":"D","E":16,"F":17,"G":1000,"H":1001}]

//# enum member named like the enum or a variable
const B = 9;
enum A { A, B = 4, C = B }
return [A, B];
//= [{"0":"A","4":"C","A":0,"B":4,"C":4},9]

//# enum used as type and value
enum Color { Red = "r", Green = "g" }
type Cs = keyof typeof Color;
const label: Record<Color, string> = { [Color.Red]: "red", [Color.Green]: "green" };
function f(c: Color = Color.Red): string { switch (c) { case Color.Red: return "1"; case Color.Green: return "2"; } }
return [label, f(), f(Color.Green), Object.values(Color)];
//= [{"r":"red","g":"green"},"1","2",["r","g"]]

//# namespace basic
namespace Util {
  export const k = 3;
  const hidden = 4;
  export function f(x: number): number { return x + k + hidden; }
  export class C { v = k; }
  export enum E { A = 1 }
  export type T = number;
  export interface I { a: T }
  let counter = 0;
  export function bump(): number { return ++counter; }
  export const { p, q: [r] } = { p: 1, q: [2] };
}
Util.bump();
return [Util.k, Util.f(1), new Util.C().v, Util.E.A, Util.bump(), Util.p, Util.r];
//= [3,8,3,1,2,1,2]

//# namespace merged with function, class and enum
function f() { return f.extra; }
namespace f { export const extra = 5; }
class K { static s = 1; }
namespace K { export const t = K.s + 1; }
enum E { A }
namespace E { export function parse(s: string) { return E[s as keyof typeof E]; } }
return [f(), K.t, E.parse("A")];
//= [5,2,0]

//# namespace of types only
namespace T { export interface A { x: number } export type B = A; namespace Inner { export type C = 1 } }
module Old { export const v = 2; }
const a: T.A = { x: 1 };
return [a, Old.v, typeof (globalThis as any).T];
//= [{"x":1},2,"undefined"]

//# namespace member named like the namespace
namespace Foo { export class Foo { a = 1; } export const make = () => new Foo(); }
return Foo.make().a;
//= 1

//# import alias
namespace A { export namespace B { export const c = 4; export type T = string; } }
import B = A.B;
import T = A.B.T;
const x: T = "s";
return [B.c, x];
//= [4,"s"]

//# line ends of all kinds are counted once
const a: number = 1; /* multi
line */ const b = `x
${a as number}
y`;
return [a, b];
//= [1,"x\n1\ny"]

//# html-like comments are operators here
let a = 5, b = 3;
return a<!--b;
//= false

//# astral and combining characters
const 𝒳: number = 1, ä: string = "😀" as string, 日本 = { "é": 2 } as const;
return [𝒳, ä.length, 日本["é"], "👩‍👩‍👧"!.length];
//= [1,2,2,8]

//# numeric separators, bigint, exponent, nullish assignment
let a: number | null = null;
a ??= 1_000;
const b: bigint = 10n ** 2n;
let c: any = { d: 0 }; c.d ||= 5; c.d &&= 6;
return [a, b, c, 2 ** 3 ** 2];
//= [1000,"100",{"d":6},512]

//# satisfies and as in awkward places
const f = (x: any) => x;
const a = f({ a: 1 } as { a: number });
const b = [...([1, 2] as number[]), 3 as const];
const c = { ...({ q: 1 } as object), z: 2 as number };
const d = `${1 as number}` as string;
const e = (await (Promise.resolve(4) as Promise<number>)) as number;
const g = typeof (1 as any);
const h = !(0 as any) as boolean;
const i = void 0 as undefined;
if ((a as any).a as boolean) { } else throw 1;
while (false as boolean) { }
for (let i = 0 as number; i < (2 as number); i++) { }
(a as any).b = 5;
(a as any).c ??= 7;
delete (a as any).b;
[(a as any).x] = [1];
({ y: (a as any).y } = { y: 2 });
return [a, b, c, d, e, g, h, i, (f as Function)(9)];
//= [{"a":1,"c":7,"x":1,"y":2},[1,2,3],{"q":1,"z":2},"1",4,"number",true,null,9]

//# yield and generics
function* g(): Generator<number, string, boolean> { const r = (yield 1) as boolean; yield <number>2; return r ? "t" : "f"; }
const it = g();
return [it.next().value, it.next(true).value, it.next().value];
//= [1,2,"t"]

//# getters named like modifiers
class A { readonly = 1; declare = 2; abstract = 3; private = 4; static = 5; async = 6; get = 7; set = 8; type = 9; override = 10; public() { return 1; } of() {} accessorless = 11 }
return Object.keys(new A());
//= ["readonly","declare","abstract","private","static","async","get","set","type","override","accessorless"]

//# object type with methods in a cast over many lines
const r = JSON.parse('{"a":[{"b":1}]}') as {
  a: Array<{
    b: number; // comment with }
    c?(x: string): void;
  }>;
};
return r.a.map(({ b }) => b);
//= [1]

//# function with type predicate over lines and default generic
function pick<
  T extends Record<string, unknown>,
  K extends keyof T = keyof T,
>(
  obj: T,
  ...keys: K[]
): Pick<
  T,
  K
> {
  return Object.fromEntries(keys.map((k) => [k, obj[k]])) as Pick<T, K>;
}
return pick({ a: 1, b: 2 }, "a");
//= {"a":1}

//# comparisons that look like generics
const a = 1, b = 2, c = 3, d = 4;
const f = (...xs: any[]) => xs;
return [f(a < b, c > d), a < b || c > d, a<b, b>a, (a < b) as boolean, a << b, f(a<b)];
//= [[true,false],true,true,true,true,4,[true]]

//# arrow in conditional with optional call
const a: any = null;
const x = a?.b ? 1 : 2;
const y = a ?.5:1;
const z = a ? .5 : 1;
return [x, y, z];
//= [2,1,1]

//# using type names that are values too
class Point { constructor(public x: number, public y: number) {} static origin: Point = new Point(0, 0); }
const p: Point = Point.origin as Point;
const Q: typeof Point = Point;
return [p, new Q(1, 2) instanceof Point];
//= [{"x":0,"y":0},true]

//# async arrow with one parameter and this types
const run = async (x: number): Promise<void> => { };
const one = async x => x;
class Chain { n = 0; add(k: number): this { this.n += k; return this; } }
await run(1);
return [await one(4), new Chain().add(1).add(2).n];
//= [4,3]

//# export-free interfaces merged with classes
interface M { extra?: number }
class M { base = 1 }
const m: M = new M();
m.extra = 2;
return m;
//= {"base":1,"extra":2}

//# getter setter pair with differing types and index access types
class T { #v = 1; get v(): number { return this.#v; } set v(x: number | string) { this.#v = +x; } }
type V = T["v"]; type Arr = { a: number[] }["a"][number];
const t = new T(); t.v = "5";
let v: V = t.v; let w: Arr = 2;
return [v, w];
//= [5,2]

//# keyword-like property types
type O = { type: string; readonly default?: number; class: 1; if(): void; new: 1; delete?: 2; "quoted-key": 3; 42: 4; [Symbol.iterator](): any };
const o: Partial<O> = { type: "a", default: 1, class: 1 };
return o;
//= {"type":"a","default":1,"class":1}

//# generic calls beside comparisons
const f = <T,>(x: T): T => x, a: number | null = 1, b = 2;
const list = [3];
return [a! < f<number>(3), list[0]! < f<Array<number>>([2])[0]!, a < f<{ x: number }>({ x: 3 }).x, f<number>(2) > f<number>(1), a! > (b), b > (a as number)];
//= [true,false,true,true,false,true]
