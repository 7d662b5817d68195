//# satisfies in arguments, returns, defaults and templates
const pick = (o: { a: number } = { a: 4 } satisfies { a: number }) => o.a satisfies number;
const s = `${pick() satisfies number}-${(pick({ a: 2 } satisfies { a: number }) as number)}`;
return [s, [1, 2] satisfies number[], (() => ({ k: 1 }) satisfies object)()];
//= ["4-2",[1,2],{"k":1}]

//# as const in odd places
const t = [1, "a", { b: [2] as const }] as const;
const f = (x = "q" as const, ...r: readonly number[]) => [x, ...r] as const;
for (const k of ["a", "b"] as const) if (k === "b" as const) return [t[2].b[0], f(), f("q", 1), `x${k}` as const];
//= [2,["q"],["q",1],"xb"]

//# satisfies before operators on the next lines
const a = 3 satisfies number
  + 4
const b = ({ x: 1 } satisfies { x: number }
).x
return [a, b]
//= [7,1]

//# overloads of functions, methods, constructors and statics
function g(a: string): string;
function g(a: number): number;
function g(a: any): any { return a; }
class C {
  constructor(a: string);
  constructor(a: number, b?: number);
  constructor(public a: any, b?: any) { this.a = b ?? a; }
  static of(): C;
  static of(x: number): C;
  static of(x?: any): C { return new C(x ?? 0); }
  m(): void
  m(a?: number): number
  m(a?: any): any { return a ?? this.a }
  get [Symbol.toStringTag](): string { return "C" }
}
return [g(1), g("x"), new C(1, 2), C.of(), C.of(5).m(), new C("q").m(7), String(new C(1))];
//= [1,"x",{"a":2},{"a":0},5,7,"[object C]"]

//# overloads with async and generators
class S {
  async load(k: string): Promise<string>;
  async load(k: number): Promise<number>;
  async load(k: any): Promise<any> { return k; }
  *walk(): Generator<number> { yield 1; yield 2; }
  async *each(n: number): AsyncGenerator<number, void, unknown> { for (let i = 0; i < n; i++) yield i; }
}
const s = new S(), out: unknown[] = [];
for await (const v of s.each(3)) out.push(v);
return [await s.load(1), await s.load("a"), [...s.walk()], out];
//= [1,"a",[1,2],[0,1,2]]

//# abstract classes with abstract accessors and constructors
abstract class Shape {
  abstract readonly name: string;
  abstract get area(): number;
  abstract set area(v: number);
  protected abstract draw(): void;
  protected constructor(protected readonly unit: string = "cm") {}
  describe(): string { return `${this.name}:${this.area}${this.unit}`; }
}
class Sq extends Shape {
  readonly name = "sq";
  constructor(private side: number) { super("mm"); }
  override get area(): number { return this.side ** 2; }
  override set area(v: number) { this.side = Math.sqrt(v); }
  protected override draw(): void {}
}
const q = new Sq(3); const before = q.describe(); q.area = 16;
return [before, q.describe()];
//= ["sq:9mm","sq:16mm"]

//# parameter properties with defaults that use earlier ones
class P {
  sum = 0;
  constructor(public a = 1, private readonly b: number = a + 1, protected c: number = a + b, public d?: string, readonly e: { x: number } = { x: c }) {
    this.sum = a + b + c + this.e.x;
  }
}
return [new P(), new P(2, 5), Object.keys(new P())];
//= [{"a":1,"b":2,"c":3,"e":{"x":3},"sum":9},{"a":2,"b":5,"c":7,"e":{"x":7},"sum":21},["a","b","c","d","e","sum"]]

//# parameter properties in a derived class with code around super
let log: string[] = [];
class A { constructor(readonly n: number) { log.push("A" + n); } }
class B extends A {
  f = log.push("field");
  constructor(public x: number, private y = x * 2) {
    super(x + y);
    log.push("B" + this.x + this.y);
  }
}
return [new B(1), log];
//= [{"n":3,"x":1,"y":2,"f":2},["A3","field","B12"]]

//# this types and polymorphic chaining
class Q<T = unknown> {
  protected parts: string[] = [];
  where(this: this, k: string): this { this.parts.push(k); return this; }
  is(): this is Q<string> { return this.parts.length > 0; }
  done(this: Q<T>): string { return this.parts.join("&"); }
}
class R extends Q { limit(n: number): this { this.parts.push("l" + n); return this; } }
return [new R().where("a").limit(2).where("b").done(), new R().is()];
//= ["a&l2&b",false]

//# index signatures everywhere
interface D { [k: string]: number; [n: number]: number }
class M { [key: string]: unknown; static [k: string]: unknown; readonly [i: number]: string; a = 1; static b = 2 }
type X = { readonly [k in "a" | "b"]?: string } & { [s: symbol]: 1 };
const d: D = { x: 1, 2: 3 };
return [d, new M(), M.b];
//= [{"2":3,"x":1},{"a":1},2]

//# template literal types
type Ev = `on${Capitalize<"click" | "load">}`;
type Route = `/${string}/:${infer_}`; type infer_ = string;
type Get<S extends string> = S extends `${infer A}.${infer B}` ? [A, ...Get<B>] : [S];
const e: Ev = `onClick`; const f = (x: `a${number}b`): `${typeof x}!` => `${x}!`;
return [e, f("a1b"), `${"t" as `t`}`];
//= ["onClick","a1b!","t"]

//# unique symbol and symbol keys
const tag: unique symbol = Symbol("tag") as any;
class K { static readonly id: unique symbol = Symbol("id") as never; [tag]: number = 4; declare [K.id]: string }
const o: { [tag]?: number; [Symbol.iterator]?(): Iterator<number> } = { [tag]: 2 };
return [o[tag], new K()[tag], typeof K.id];
//= [2,4,"symbol"]

//# assertion functions and predicates in every position
function isStr(v: unknown): v is string { return typeof v === "string"; }
function must(v: unknown, m?: string): asserts v { if (!v) throw new Error(m); }
function mustBe<T>(v: unknown): asserts v is T { }
const arrow: (v: unknown) => asserts v is number = (v: unknown): asserts v is number => { if (typeof v !== "number") throw 1; };
class G { ok = true; isOk(): this is { ok: true } { return this.ok; } assertOk(): asserts this { } assertIt(): asserts this is this { } }
const v: unknown = "x"; must(v); mustBe<string>(v); arrow(3);
const isNum = (x: any): x is number => typeof x === "number", two = async (x: unknown): Promise<boolean> => isStr(x);
return [isStr(v), [1, "a"].filter((x): x is number => typeof x === "number"), isNum(2), await two(v), new G().isOk()];
//= [true,[1],true,true,true]

//# generic arrows in async contexts
const wrap = async <T,>(x: T | Promise<T>): Promise<{ v: T }> => ({ v: await x });
const pairs = async <K extends string, V = number>(k: K, v: V): Promise<Record<K, V>> => ({ [k]: v }) as Record<K, V>;
const many = await Promise.all([1, 2].map(async <N extends number>(n: N): Promise<N> => n));
const gen = async function* <T>(xs: T[]): AsyncGenerator<T> { yield* xs; };
const got: number[] = []; for await (const x of gen<number>([5, 6])) got.push(x);
return [await wrap<number>(1), await pairs("a", 2), many, got, await (async <T>(x: T) => x)(9)];
//= [{"v":1},{"a":2},[1,2],[5,6],9]

//# optional chaining mixed with non-null
const a: { b?: { c?: () => { d: number[] } | null }; e?: any } | null = { b: { c: () => ({ d: [1, 2] }) } };
return [a!.b!.c!()!.d![1]!, a?.b!.c?.()!.d, a!?.b?.["c"]!()!.d?.[0]!, a?.e!?.x!.y, (a?.b)!.c!()?.d!.length, a!.b?.c!?.()?.d!.map(x => x!)];
//= [2,[1,2],1,null,2,[1,2]]

//# non-null before assignment, increments and delete
const o: { a?: number; b?: { c?: number }; l?: number[] } = { a: 1, b: { c: 2 }, l: [1] };
o.a!++; --o.b!.c!; o.l![0]! **= 3; o.a! += 2; o.b!.c! ||= 9; delete o.b!.c; (o.l!)[o.l!.length!] = 7;
[o.a!, o.l![0]!] = [o.l![1]!, o.a!];
return o;
//= {"a":7,"b":{},"l":[4,7]}

//# non-null next to comparison and negation
let n: number | null = 3, m: number | undefined = 3;
return [n! == m!, n! === m, n! != m!, n!!==m, !n!, !!n!, n!!, n! > m!, n! << m!, n!*m!, -n!, n!--, typeof n!, n! in [1, 2, 3]];
//= [true,true,false,false,false,true,3,false,24,9,-3,3,"number",true]

//# trailing comma generics and casts of arrows
const id = <T,>(x: T): T => x;
const c = <T, U = T>(x: T, y?: U): [T, U?] => [x, y];
const k = <const T extends readonly unknown[]>(x: T): T => x;
const cast = (<T,>(x: T) => x) as unknown as (x: number) => number;
const inn = id(<T,>(y: T) => y)(5);
return [id(1), c(1, "a"), k([1, 2]), cast(3), inn, [1].map(<T,>(x: T) => x)];
//= [1,[1,"a"],[1,2],3,5,[1]]

//# type assertions with angle brackets in calls and operators
const x: unknown = 4;
const y = <number>x + <number>x * 2, z = -<number>x, w = !<any>x, v = <any>x ? 1 : 2, u = typeof <any>x;
const arr = [<number>x, <any>{ a: 1 }, <any[]>[2], <string><unknown>"s"];
const f = <(a: number) => number>((a) => a + 1);
return [y, z, w, v, u, arr, f(1), (<any>{ q: 1 }).q, <any>x as number, Math.max(<number>x, <any>9)];
//= [12,-4,false,1,"number",[4,{"a":1},[2],"s"],2,1,4,9]

//# async arrow after cast and await casts
const go = <() => Promise<number>>(async () => 3);
const v = <number>await go();
const w = await <Promise<number>>go();
const u = (await go()) as number, t = await (go() as Promise<number>);
return [v, w, u, t, (<any>await go()).toFixed(1)];
//= [3,3,3,3,"3.0"]

//# enum const string computed and references
enum A { X = 1 << 0, Y = 1 << 1, Z = X | Y, W = "abc".length, V = Z }
const enum B { Q = A.Y, R = Q + 10 }
enum C { First = "f", Second = `s`, Third = First }
enum D { A = 1, B, C = 10, D }
return [A, B.R, C, D, A[3], D[2], D.D];
//= [{"1":"X","2":"Y","3":"V","X":1,"Y":2,"Z":3,"W":3,"V":3},12,{"First":"f","Second":"s","Third":"f"},{"1":"A","2":"B","10":"C","11":"D","A":1,"B":2,"C":10,"D":11},"V","B",11]

//# enum merged over declarations and functions
enum E { A }
enum E { B = 1, C }
namespace E { export function parse(s: string): E { return E[s as keyof typeof E] as unknown as E; } }
return [E.A, E.B, E.C, E[2], typeof (E as any).parse, E.parse("B")];
//= [0,1,2,"C","function",1]

//# enum reverse maps and iteration
enum Color { Red, Green = 4, Blue }
const names = Object.keys(Color).filter((k) => isNaN(Number(k)));
const values = Object.values(Color).filter((v): v is Color => typeof v === "number");
return [names, values, Color[Color.Blue], Color["Red"], Color[4], "Red" in Color];
//= [["Red","Green","Blue"],[0,4,5],"Blue",0,"Green",true]

//# enum with odd names and trailing comments
enum Odd { "a-b" = 1, 'c d', "é" = 5, $ = 7, _ , "__proto_" = 9, /* last */ }
return [Odd["a-b"], Odd["c d"], Odd["é"], Odd.$, Odd._, Odd[8], Odd[2]];
//= [1,2,5,7,8,"_","c d"]

//# enum negative float and shifting numbers
enum N { A = -1, B, C, D = 1.5, E, F = 0x10, G = 1e3, H, I = ~5, J = -(2 ** 3), K = 7 % 4, L = 0b11 }
return N;
//= {"0":"B","1":"C","3":"L","16":"F","1000":"G","1001":"H","A":-1,"-1":"A","B":0,"C":1,"D":1.5,"1.5":"D","E":2.5,"2.5":"E","F":16,"G":1000,"H":1001,"I":-6,"-6":"I","J":-8,"-8":"J","K":3,"L":3}

//# enum members that shadow outer names and call functions
const A = 100; function two() { return 2; }
enum S { A = 3, B = A + 1, C = two(), D = C * 2, E = (() => B)(), F = [A, B].length, G = Math.max(A, B) }
return [S, A];
//= [{"2":"F","3":"A","4":"G","A":3,"B":4,"C":2,"D":4,"E":4,"F":2,"G":4},100]

//# enum in nested blocks and loops
const out: any[] = [];
for (let i = 0; i < 2; i++) { enum L { A = i as number, B = 7 } out.push(L.A, L[7]); }
if (out.length) { const enum M { Z = 4 } out.push(M.Z); } else { enum Q { } }
function f() { enum R { U = "u" } return R.U; }
switch (out.length) { default: enum T { V = 2 } out.push(T.V); }
return [out, f()];
//= [[0,"B",1,"B",4,2],"u"]

//# const enum used above and inside closures
const f = () => Later.B;
const enum Later { A = 4, B = A * 2, C = "c" }
return [f(), Later.C, Later["A"]];
//= [8,"c",4]

//# declare in all places
declare let gone: number; declare var gone2: string, gone3: any; declare function nope(a: number): string;
declare class Ghost { m(): void; static s: number; private constructor(); }
declare enum DE { A, B = 2 }
declare namespace DN { const a: number; function b(): void; namespace Deep { let c: string } }
declare module "x" { export const y: number; }
declare global { interface Window { z: 1 } var q: number }
declare abstract class Abs { abstract m(): void }
declare type T = number; declare interface I { a: T }
return [typeof gone, typeof gone2, typeof nope, typeof Ghost, typeof DE, typeof DN];
//= ["undefined","undefined","undefined","undefined","undefined","undefined"]

//# declare as a plain name
let declare = 1; declare = declare + 1
declare
let namespace = 2, module = 3, type = 4, abstract = 5, is = 6, asserts = 7, infer = 8, keyof = 9, readonly = 10, unique = 11, global = 12, override = 13, out = 14, satisfies = 15, as = 16, any = 17, of = 18, get = 19, set = 20, from = 21
namespace
module
type
abstract
readonly
return [declare, namespace, module, type, abstract, is, asserts, infer, keyof, readonly, unique, global, override, out, satisfies, as, any, of, get, set, from].length + (type as number) + (as as any) + (satisfies satisfies number)
//= 56

//# contextual words as members and parameters
class W { type = 1; declare = 2; readonly = 3; abstract() { return 4 } static static = 5; get get() { return 6 } set set(v: number) { this.type = v } async async() { return 7 } namespace: number = 8; override = 9; public = 10; private() { return 11 } of?: number; as!: string; static async = 12; async *gen() { yield 13 } }
const w = new W(); w.set = 14;
const o = { type: 1, async: 2, get: 3, set: 4, declare() { return 5 }, async async(): Promise<number> { return 6 }, get get2(): number { return 7 }, *of() { yield 1 } };
const f = (type: string, readonly: number, as?: any): string => type + readonly + as;
return [w, W.static, w.get, await w.async(), w.abstract(), w.private(), W.async, o.declare(), await o.async(), o.get2, f("a", 1)];
//= [{"type":14,"declare":2,"readonly":3,"namespace":8,"override":9,"public":10},5,6,7,4,11,12,5,6,7,"a1undefined"]

//# definite assignment and uninitialised fields
let a!: number, b!: string; var c!: any;
class F { x!: number; y?: string; readonly z!: boolean; static s!: number; #p!: number; declare d: string; "quoted"!: number; 5?: number; [`t`]!: string }
a = 1; b = "b";
return [a, b, typeof c, Object.keys(new F()), "s" in F, "d" in new F()];
//= [1,"b","undefined",["5","x","y","z","quoted","t"],true,false]

//# import type and export type
import type { A, B as C } from "./a";
import type D from "./d";
import type * as NS from "./ns";
import { type E, type F as G } from "./e";
export type { A };
export type Local = string | A;
export interface Shape { a: Local }
export type * from "./z";
const x: C | D | NS.Q | E | G = 4 as any;
return x;
//= 4

//# labelled statements and types
outer: for (const a of [1, 2, 3] as number[]) { inner: for (const b of [1, 2] as const) { if (a * b === (4 as number)) break outer; if (b === 2) continue outer; } }
lbl: { const q: number = 1; if (q as any) break lbl; }
type: while (true) { break type }
declare: for (;;) { break declare }
return "ok";
//= "ok"

//# object types beside blocks
let a: { b: number } = { b: 1 }
{ a.b++ }
const f = (): { c: number } => { return { c: 2 } }
const g = (): { c: number } => ({ c: 3 });
function h(): { d: number } { { } return { d: 4 } }
let x: {} = {}; { } ({})
type T = { a: 1 }
{ a.b++ }
interface I { }
{ a.b++ }
return [a, f(), g(), h(), x]
//= [{"b":4},{"c":2},{"c":3},{"d":4},{}]

//# regex against division against generics
const a = 8, g = 2, x: number = 4;
const r = [a / g / x, /a/g.test("a"), a! / g, (a) / g, [a][0]! / g, a as number / 1 ? 1 : 2];
const q = x < a && /</.test("<"), z = [/[/\]]/.source, /(?<y>\d+)/u.exec("a12")!.groups!.y];
const f = <T,>(v: T) => /x>/.test(String(v)) ? 1 / 2 / 1 : 0;
return [r, q, z, f("x>"), (x as any) / 2];
//= [[1,true,4,4,4,1],true,["[/\\]]","12"],0.5,2]
