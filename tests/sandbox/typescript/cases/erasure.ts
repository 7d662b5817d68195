//# satisfies chain
const a = { x: 1 } satisfies object as unknown as { x: number } satisfies { x: number };
return a.x
//= 1

//# generic arrow vs comparison
const id = <T,>(x: T) => x, two = <T extends number = 1>(x: T): T => x;
return [id(1), two<number>(2), id<string>("q")];
//= [1,2,"q"]

//# arrow return over lines
const f = (
  a: number,
): {
  a: number;
} => ({ a });
return f(1);
//= {"a":1}

//# arrow in conditional with type params
const c = true ? <T,>(x: T): T => x : (y: number): number => y;
return c(3);
//= 3

//# conditional with parenthesised arrow return type
const q = 1 ? (x: number): number => x + 1 : null;
return q!(1);
//= 2

//# a conditional that looks like an arrow with a type
const a = true, b = 2;
const r = a ? (b) : (x: number) => x;
return r;
//= 2

//# abstract with overloads
abstract class A { abstract go(): void; abstract x: number; run(a: string): string; run(a: number): number; run(a: any) { return a } protected constructor(readonly p: number) {} static make() { return new (class extends A { go() {} x = 2 })(4) } }
return [A.make().p, A.make().x, A.make().run(7)];
//= [4,2,7]

//# enum merging
enum E { A, B = "b".length }
enum E { C = 10, D }
return [E.A, E.B, E.C, E.D, E[11]];
//= [0,1,10,11,"D"]

//# enum with computed and self
const k = 3;
enum F { A = 1 << 2, B = A | 1, C = k, D = "x".length, E = B + C, "f g" = 9, G = F["f g"] }
return [F.A, F.B, F.C, F.D, F.E, F["f g"], F.G, F[9]];
//= [4,5,3,1,8,9,9,"G"]

//# string enum template
enum S { A = `a`, B = `${A}b`, C = "c" + "d" }
return [S.A, S.B, S.C];
//= ["a","ab","cd"]

//# class namespace merge
class K { m() { return K.inner } }
namespace K { export const inner = 3; export interface I {} export type T = number }
return new K().m();
//= 3

//# nested namespace dotted
namespace A.B.C { export const x = 1; export function f() { return x + 1 } }
return [A.B.C.f(), A.B.C.x];
//= [2,1]

//# namespace destructuring export
namespace N { export const { a, b: [c] } = { a: 1, b: [2] }; export const d = a + c }
return [N.a, N.c, N.d];
//= [1,2,3]

//# definite assignment
let x!: number; x = 4
class D { y!: string; z?: number; readonly w = 1; declare v: number }
return [x, Object.keys(new D())];
//= [4,["y","z","w"]]

//# index signatures and symbols
declare const tag: unique symbol;
class I { [key: string]: any; static readonly [k: number]: string; a = 1 }
type Br = { [tag]: 1 };
return new I().a;
//= 1

//# getters with types and this params
class G { get v(): number { return 1 } set v(x: number) { } static get s(): this is string { return true as any } m(this: G, ...r: number[]): asserts this is G { } }
function th(this: { n: number }, a: number) { return this.n + a }
return [new G().v, th.call({ n: 1 }, 2)];
//= [1,3]

//# optional chaining and bang
const o: any = { a: { b: () => ({ c: 1 }) } };
return [o!.a!.b!()!.c, o?.a!.b?.()!.c, o!["a"]!["b"], o.z?.y!.x, (o as any)!?.a.b()!.c];
//= [1,1,null,null,1]

//# template literal types
type T1 = `a-${string}-${number extends 1 ? "x" : `y${1}`}`;
const t: T1 = `a-b-1` as `a-${string}-1`;
return t;
//= "a-b-1"

//# asserts
function isN(x: unknown): asserts x is number { }
function ok(x: any): asserts x { }
const g = (x: unknown): x is string => typeof x === "string";
return [isN(1), ok(1), g("s")];
//= [null,null,true]

//# regex after as
const x: any = 4, g = 2;
const y = x as any / 2 / g;
return y;
//= 1

//# regex at statement after type
type R = string
/a/g.test("a")
return 1
//= 1

//# comparison chain
const a = 1, b = 2, c = 3;
return [a < b, a < b && b > (c), (a < b) > (c as any), a < b || c > (1)];
//= [true,false,false,true]

//# generic call with trailing
function f<T>(...x: any[]) { return x.length }
return [f<number>(1), f<Array<number>>(1, 2), f<Map<string, Array<() => void>>>(), new Map<string, Array<Array<number>>>().size];
//= [1,2,0,0]

//# instantiation expression
function f<T>(x: T) { return x }
const g = f<number>;
const h = [f<string>, f<Array<Array<1>>>];
return [g(1), h.length];
//= [1,2]

//# modifiers as names
class M { static = 1; readonly = 2; declare = 3; abstract = 4; type = 5; get = 6; set = 7; public = 8; override = 9; accessor = 10; async() { return 1 } readonly readonly2 = 3; static static = 4; static async *gen() {} }
return [Object.keys(new M()), M.static];
//= [["static","readonly","declare","abstract","type","get","set","public","override","accessor","readonly2"],4]

//# type as statement-like expressions
let type: any = 3
type
= 5
return type;
//= 5

//# typeof import
let x: typeof import("y") = 1 as any;
let z: import("a").B<import("c").D> = 2 as any;
return [x, z];
//= [1,2]

//# abstract constructor types and function types
let ctor: abstract new (...a: any[]) => object = class {} as any;
let fn: { (x: number): string; new (y: string): Date; readonly a?: 1; m?(): void; get g(): number; set g(v: number) } = null as any;
return [typeof ctor, fn];
//= ["function",null]

//# const type params and variance
function k<const T extends readonly unknown[]>(x: T): T { return x }
interface V<in out T, in I, out O> {}
class Q<in T> { x = 1 }
return [k([1, 2]), new Q<number>().x];
//= [[1,2],1]

//# assertion prefix
const n = <number><unknown>"5";
const o = <const>["a"];
const f = <any>function () { return 1 };
const g = <T,>(x: T) => <T>x;
return [n, o, f(), g(2), (<any>{ a: 1 }).a];
//= ["5",["a"],1,2,1]

//# arrow bodies with casts
const f = () => ({ a: 1 } as { a: number });
const g = () => <any>{ b: 2 };
const h = async <T,>(x: T): Promise<T> => x as T;
return [f(), g(), await h(3)];
//= [{"a":1},{"b":2},3]

//# non-null at line ends
let a: any = { b: 1 }
let c = a!
let d = c.b!
;(d)
const e = a!
  .b
return [c.b, d, e];
//= [1,1,1]

//# as at line ends before paren and bracket
let x: any = [1]
const y = x as number[]
;[1].forEach(() => {})
const z = x as any
const w = `t`
return [y, z, w];
//= [[1],[1],"t"]

//# declare blocks
declare module "foo" { export const x: number; function y(): void }
declare global { interface Window { a: 1 } }
declare function df(x: number): void;
declare class DC { m(): void; x: number }
declare let a1: number, b1: string;
declare namespace DN { const q: 1 }
declare enum DE { A }
return 1;
//= 1

//# parameter properties with defaults
class P { constructor(public a = 1, private readonly b: string = "b", protected c?: number, d = a) { (this as any).d = d } }
class Q extends P { constructor(public e: number, ...rest: any[]) { super(1); rest.length } }
return [Object.entries(new P()), Object.entries(new Q(5))];
//= [[["a",1],["b","b"],["c",null],["d",1]],[["a",1],["b","b"],["c",null],["d",1],["e",5]]]

//# using accessor names
const using = 1; const accessor = 2;
return [using, accessor];
//= [1,2]

//# getter in interface and object literal types
const obj: { get x(): number; y?: string } = { get x(): number { return 1 }, async *gen<T>(a: T): AsyncGenerator<T> { yield a }, async m<T>(this: any, x: T): Promise<T> { return x }, set z(v: number) { }, [`k`]: 1 as number } as any;
return [obj.x, await (obj as any).m(2)];
//= [1,2]

//# catch with type and for of with types
try { throw 1 } catch (e: unknown) { }
for (const x of [1, 2] as number[]) { }
for (let i: number = 0, n = 2 as number; i < n; i++) { }
for (const k in ({} as any)) { }
return 1;
//= 1

//# default with casts in patterns
const { a = 1 as number, b: { c = <any>2 } = {} as any, ...r }: { a?: number; b?: any; [k: string]: any } = {};
function f({ x = 1 as const }: { x?: 1 } = {}, [y]: [number?] = [], ...z: any[]) { return x }
return [a, c, f()];
//= [1,2,1]

//# labels and blocks
outer: for (const a of [1]) { type L = 1; interface J {} break outer }
if (true) type Z = 1;
return 2;
//= 2

//# shift operators vs generics
const a = 8, b = 1;
const c = a >> b, d = a >>> b, e: Array<Array<number>> = [[a>>b]];
let f: Array<Array<Array<number>>>= [];
return [c, d, e, f];
//= [4,4,[[4]],[]]

//# arrow returning generic type
const f = (x: number): Array<Array<number>> => [[x]];
const g = async (): Promise<Array<() => void>> => [];
const h = (): (() => number) => () => 1;
const i = (cb: (e: Error | null) => void): void => cb(null);
return [f(1), await g(), h()(), i(() => {})];
//= [[[1]],[],1,null]

//# tagged template with type args
const tag = (s: any, ...v: any[]) => s[0] + v.length;
return [tag<string>`a${1}`, tag`b`];
//= ["a1","b0"]

//# decorators-like at in strings and enum const
const enum CE { A = 1, B = A << 1, C = "x" as any }
return [CE.A, CE.B, CE["A"]];
//= [1,2,1]

//# import alias
namespace NS { export namespace In { export const q = 5; export interface T {} } }
import A = NS.In;
import T = NS.In.T;
return A.q;
//= 5

//# async arrow generics
const f = async <T extends object>({ a }: { a: T }, [b]: number[] = []): Promise<T> => a;
return await f({ a: { q: 1 } });
//= {"q":1}

//# this types and predicates
class B { isA(): this is B { return true } self(): this { return this } x?(): void; private static async *[Symbol.iterator]?(): any { } }
return new B().isA();
//= true

//# object type literal in generics default
class Z<T extends { a: number; b: () => void } = { a: 1; b(): void }> { v: T | undefined = undefined }
return new Z<{ a: 1, b: () => void }>().v;
//= null

//# comma in types
const t: [a: string, b?: number, ...c: boolean[]] = ["a"];
const m = new Map<[string, number], { k: string, v: number }>([]);
return [t, m.size];
//= [["a"],0]

//# double angle in call args
function f(a: any, b?: any) { return [a, b] }
const a = 1, b = 2, c = 3;
return [f(a < b, b > c), f(a < b, c)];
//= [[true,false],[true,3]]

//# division after non-null
const a: any = 8, g = 2;
return [a! / 2, a! /g/ 1];
//= [4,4]

//# asi after type alias
type A = number
[1].length
return 5
//= 5

//# asi after declare
declare const x: number
const y = 1
return y
//= 1

//# interface as identifier-like
interface I<T> extends Array<T>, Map<string, T> { <X>(a: X): T; new <Y>(b: Y): I<Y>; method?<Z>(): void; readonly [k: string]: any }
return 1
//= 1

//# abstract class expression and implements
const K = class<T> implements Iterable<T>, PromiseLike<T> { [Symbol.iterator]: any; then: any };
return Object.keys(new K<number>()).length;
//= 1

//# accessor as a name
class M {
  accessor
  x = 1
}
class N { accessor() { return 4 } }
class O { static readonly accessor: number = 5 }
return [Object.keys(new M()), new N().accessor(), O.accessor];
//= [["accessor","x"],4,5]
