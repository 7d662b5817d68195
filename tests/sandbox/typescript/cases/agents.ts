//# type arguments over lines in calls and heritage
const m = new Map<
  string,
  number
>([["a", 1]]), f = <T,>(x: T): T => x, r = f<
  { a: number }
>({ a: 2 })
class K extends Map<
  string, number
> implements Iterable<
  [string, number]
> { }
return [m.get("a"), r, new K([["b", 3]]).size]
//= [1,{"a":2},1]

//# parameters each on a line with comments
function f(
  // the first
  a: number, // a: string
  /* second */ b: string | undefined = "x", /* { */
  { c, /* d: */ d = 4 /* } */ }: { c: number, d?: number } = { c: 3 },
  ...rest: number[] // done
): [number, string, number, number, number] /* ret */ {
  return [a, b, c, d, rest.length]
}
return [f(1), f(2, "y", { c: 5 }, 6, 7)]
//= [[1,"x",3,4,0],[2,"y",5,4,2]]

//# long unions and intersections in parameters
const norm = (v: | string | number | { value: string | number; unit?: "px" | "em" } | null | undefined, fallback: (string & {}) | number = 0): string => v == null ? `${fallback}` : typeof v === "object" ? `${v.value}${v.unit ?? ""}` : `${v}`
return [norm(null), norm(1), norm({ value: 2, unit: "px" }), norm(undefined, "z")]
//= ["0","1","2px","z"]

//# object spread in returns with casts and satisfies
const base = { a: 1, b: { c: 2 } } satisfies object, up = <T extends object>(t: T, p: Partial<T>): T => ({ ...t, ...p } as T)
const r = { ...up(base, { a: 3 }), ...(true as boolean && { d: 4 }), ...({} as { e?: 5 }), b: { ...base.b!, f: [...[1] as const] } } satisfies Record<string, unknown>
return r
//= {"a":3,"b":{"c":2,"f":[1]},"d":4}

//# assertion chains on json
const j = JSON.parse('{"rows":[{"id":"1","n":null},{"id":"2","n":4}]}') as { rows: { id: string; n: number | null }[] } | null
const ids = (j!.rows as readonly { id: string }[]).map(({ id }: { id: string }) => parseInt(id, 10)!), n = (j?.rows?.find((r): r is { id: string; n: number } => r.n !== null)?.n ?? -1) as number
return { ids, n, last: (j as NonNullable<typeof j>).rows[j!.rows!.length! - 1]!["id" as const] }
//= {"ids":[1,2],"n":4,"last":"2"}

//# helper functions with record and partial types
const groupBy = <T, K extends PropertyKey>(xs: readonly T[], key: (x: T) => K): Partial<Record<K, T[]>> => xs.reduce((a, x) => { const k = key(x); (a[k] ||= [])!.push(x); return a }, {} as Partial<Record<K, T[]>>)
const pick = <T extends object, K extends keyof T>(o: T, ...ks: K[]): Pick<T, K> => Object.fromEntries(ks.map((k) => [k, o[k]])) as Pick<T, K>, omit = <T extends object, K extends keyof T>({ ...o }: T, ...ks: K[]): Omit<T, K> => { for (const k of ks) delete o[k]; return o }
const chunk = <T>(xs: T[], n: number): T[][] => xs.length <= n ? [xs] : [xs.slice(0, n), ...chunk<T>(xs.slice(n), n)]
return [groupBy([1, 2, 3], (x): "odd" | "even" => x % 2 ? "odd" : "even"), pick({ a: 1, b: 2 }, "a"), omit({ a: 1, b: 2 }, "a"), chunk([1, 2, 3], 2)]
//= [{"odd":[1,3],"even":[2]},{"a":1},{"b":2},[[1,2],[3]]]

//# markdown tables from typed rows
interface Col<R> { head: string; get: (r: R) => string | number; align?: "l" | "r" }
function table<R>(rows: R[], cols: Col<R>[]): string { const cells = [cols.map((c) => c.head), ...rows.map((r) => cols.map((c): string => String(c.get(r))))], w = cols.map((_, i) => Math.max(...cells.map((l) => l[i]!.length))); const line = (l: string[]): string => "|" + l.map((s, i) => cols[i]!.align === "r" ? s.padStart(w[i]!) : s.padEnd(w[i]!)).join("|") + "|"; return [line(cells[0]!), "|" + w.map((n) => "-".repeat(n)).join("|") + "|", ...cells.slice(1).map(line)].join("\n") }
return table([{ n: "a", v: 10 }, { n: "bcd", v: 2 }], [{ head: "name", get: (r) => r.n }, { head: "v", get: (r): number => r.v, align: "r" }])
//= "|name| v|\n|----|--|\n|a   |10|\n|bcd | 2|"

//# priority queue with comparators
class Heap<T> { readonly #xs: T[] = []; constructor(private readonly cmp: (a: T, b: T) => number = (a, b) => (a as any) - (b as any), xs: Iterable<T> = []) { for (const x of xs) this.push(x) } get size(): number { return this.#xs.length } push(x: T): this { const a = this.#xs; a.push(x); let i = a.length - 1; while (i > 0) { const p = (i - 1) >> 1; if (this.cmp(a[i]!, a[p]!) >= 0) break; [a[i], a[p]] = [a[p]!, a[i]!]; i = p } return this } pop(): T | undefined { const a = this.#xs, top = a[0], last = a.pop(); if (a.length && last !== undefined) { a[0] = last; for (let i = 0; ;) { let m = i; for (const c of [2 * i + 1, 2 * i + 2] as const) if (c < a.length && this.cmp(a[c]!, a[m]!) < 0) m = c; if (m === i) break; [a[i], a[m]] = [a[m]!, a[i]!]; i = m } } return top } }
const h = new Heap<number>(undefined, [5, 1, 4]); h.push(2).push(3); const out: number[] = []; while (h.size > 0) out.push(h.pop()!)
return out
//= [1,2,3,4,5]

//# linked structures and iterators
class Node2<T> { constructor(public readonly value: T, public next: Node2<T> | null = null) { } } class List<T> implements Iterable<T> { private head: Node2<T> | null = null; private tail: typeof this.head = null; length = 0; static of<T>(...xs: T[]): List<T> { return xs.reduce((l, x) => l.add(x), new List<T>()) } add(v: T): this { const n = new Node2<T>(v); this.tail ? this.tail.next = n : this.head = n; this.tail = n; this.length++; return this } *[Symbol.iterator](): Iterator<T, undefined> { for (let n = this.head; n; n = n.next!) yield n!.value; return undefined } map<U>(f: (t: T, i: number) => U): List<U> { let i = 0; const l = new List<U>(); for (const x of this) l.add(f(x, i++)); return l } }
return [[...List.of(1, 2).map((x, i): string => `${x}:${i}`)], List.of<string>().length]
//= [["1:0","2:1"],0]

//# text templates with typed placeholders
type Vars<S extends string> = S extends `${string}{${infer V}}${infer R}` ? { [K in V]: string | number } & Vars<R> : {}; const fill = <S extends string>(s: S, v: Vars<S>): string => s.replace(/\{(\w+)\}/g, (_: string, k: string) => String((v as any)[k] ?? `{${k}}`))
return [fill("{a} and {b}", { a: 1, b: "x" }), fill("none", {}), fill("{z}" as string as "{z}", {} as any)]
//= ["1 and x","none","{z}"]

//# date ranges with generators and enums
enum Unit { Day = 864e5, Hour = 36e5 } function* range(from: Date, to: Date, unit: Unit = Unit.Day, step: number = 1): Generator<Date> { for (let t = +from; t < +to; t += unit * step) yield new Date(t) }
return [[...range(new Date("2024-02-28T00:00Z"), new Date("2024-03-02T00:00Z"))].map((d): string => d.toISOString().slice(5, 10)), [...range(new Date(0), new Date(Unit.Hour * 4), Unit.Hour, 2)].length, Unit[864e5]]
//= [["02-28","02-29","03-01"],2,"Day"]

//# polling until done with bounded steps
interface Job { id: string; state: "queued" | "running" | "done"; progress?: number } const jobs: Job[] = [{ id: "1", state: "queued" }]; const poll = async (id: Job["id"]): Promise<Readonly<Job>> => { const j = jobs.find((x) => x.id === id)!; j.progress = (j.progress ?? 0) + 50; j.state = j.progress! >= 100 ? "done" : "running"; return { ...j } as const }
let j: Job | undefined, n = 0; do { j = await poll("1"); n++ } while (j!.state !== ("done" satisfies Job["state"]) && n < 10)
return { n, j }
//= {"n":2,"j":{"id":"1","state":"done","progress":100}}

//# diff of two records
type Change<V> = { key: string } & ({ op: "add"; to: V } | { op: "del"; from: V } | { op: "set"; from: V; to: V }); const diff = <V,>(a: Record<string, V>, b: Record<string, V>): Change<V>[] => [...new Set([...Object.keys(a), ...Object.keys(b)])].sort().flatMap((key): Change<V>[] => !(key in a) ? [{ key, op: "add", to: b[key]! }] : !(key in b) ? [{ key, op: "del", from: a[key]! }] : a[key] !== b[key] ? [{ key, op: "set", from: a[key]!, to: b[key]! }] : [])
return diff<number>({ a: 1, b: 2, c: 3 }, { b: 2, c: 4, d: 5 })
//= [{"key":"a","op":"del","from":1},{"key":"c","op":"set","from":3,"to":4},{"key":"d","op":"add","to":5}]

//# schema checks with assertion functions
type Check<T> = (v: unknown, path?: string) => asserts v is T; const str: Check<string> = (v, path = "$") => { if (typeof v !== "string") throw new TypeError(`${path}: string wanted`) }; const arr = <T,>(c: Check<T>): Check<T[]> => (v: unknown, path: string = "$"): asserts v is T[] => { if (!Array.isArray(v)) throw new TypeError(`${path}: list wanted`); v.forEach((x: unknown, i: number): void => { const check: Check<T> = c; check(x, `${path}[${i}]`) }) }
const out: string[] = []; for (const v of [["a"], ["a", 1], 5] as unknown[]) try { const c: Check<string[]> = arr(str); c(v); out.push("ok " + v.length) } catch (e) { out.push((e as TypeError).message) }
return out
//= ["ok 1","$[1]: string wanted","$: list wanted"]

//# semver compare and tuple destructuring
type V = readonly [major: number, minor: number, patch: number]; const parse = (s: string): V => s.split(".").map(Number) as unknown as V; const cmp = (a: V, b: V): -1 | 0 | 1 => { for (let i = 0 as 0 | 1 | 2; i < 3; i++) { const d = a[i]! - b[i]!; if (d) return d < 0 ? -1 : 1 } return 0 }; const [maj, , pat = -1]: readonly number[] = parse("1.2.3")
return [["1.10.0", "1.9.3", "1.9.0"].map(parse).sort(cmp).map((v): string => v.join(".")), maj, pat]
//= [["1.9.0","1.9.3","1.10.0"],1,3]

//# bitsets and masks with typed literals
const set = (m: number, ...bits: (0 | 1 | 2 | 3)[]): number => bits.reduce<number>((a, b) => a | (1 << b), m), has = (m: number, b: number): boolean => !!(m & 1 << b), bits = (m: number): number[] => Array.from({ length: 4 }, (_, i) => i).filter((i): i is 0 | 1 | 2 | 3 => has(m, i)), big: bigint = (1n << 65n) as bigint | 1n
return [set(0, 1, 3), has(5, 2), bits(10), ~~(7 / 2) as number, -1 >>> 28, String(big)]
//= [10,true,[1,3],3,15,"36893488147419103232"]

//# nested async closures with captured types
async function outer<T extends { id: number }>(xs: T[]): Promise<Map<T["id"], () => Promise<T>>> { const m = new Map<T["id"], () => Promise<T>>(); for (const x of xs) m.set(x.id, async (): Promise<T> => { await null; return { ...x, seen: true } as T & { seen: true } }); return m }
const m = await outer([{ id: 1 }, { id: 2 }]); return await Promise.all([...m.values()].map(async (f) => (await f()) as any))
//= [{"id":1,"seen":true},{"id":2,"seen":true}]

//# exceptions that carry types through finally
const log: string[] = []; async function guard<T>(f: () => T | Promise<T>, d: T): Promise<T> { try { return await f() } catch (e: unknown) { log.push(e instanceof Error ? e.message : `${e as any}`); return d } finally { log.push("end" as const) } }
return [await guard<number>(() => { throw new RangeError("r") }, 0), await guard(async () => 2 as number, 1), await guard<string>((): never => { throw "s" }, "d"), log]
//= [0,2,"d",["r","end","end","s","end"]]

//# getters that cache and delete themselves
class Lazy { get data(): readonly number[] { const v = [1, 2, 3] as const; Object.defineProperty(this, "data", { value: v, enumerable: true }); return v } static get instance(): Lazy { return this.#i ??= new Lazy() } static #i?: Lazy }
const l = Lazy.instance; return [l.data === l.data, Lazy.instance === l, { ...l }]
//= [true,true,{"data":[1,2,3]}]

//# interfaces with generics defaults and call chains
interface Repo<T, Id = string, Opts extends object = { limit?: number }> { list(o?: Opts): Promise<T[]>; byId(id: Id): Promise<T | undefined> } const repo: Repo<{ n: number }, number> & { calls: number } = { calls: 0, async list(this: any, { limit = 2 } = {}) { this.calls++; return [1, 2, 3].slice(0, limit).map((n): { n: number } => ({ n })) }, byId: async (id) => (await repo.list({ limit: 3 })).find((x) => x.n === id) }
return [await repo.list(), (await repo.byId(3))!.n, (await repo.byId(9))?.n ?? null, repo.calls]
//= [[{"n":1},{"n":2}],3,null,3]

//# mixed module and script forms with types only
export type A = number; export interface B { a: A } export declare const ghost: number; import type X from "x"; type C = X & B;
const b: B = { a: 1 }
return b.a satisfies A
//= 1

//# quotes, escapes and types in object keys
const o: { "a-b": number; 'c"d': string; [`e`]: boolean; 0: null; "0x1": 1; "": 2; "\n": 3 } = { "a-b": 1, 'c"d': "x", [`e`]: true, 0: null, "0x1": 1, "": 2, "\n": 3 }; const { "a-b": ab, 'c"d': cd, ["e"]: e, 0: zero, ...rest }: typeof o = o
return [ab, cd, e, zero, rest]
//= [1,"x",true,null,{"0x1":1,"":2,"\n":3}]

//# comma expressions, sequence arrows and void types
let n: number = 0; const f = (): void => void (n++, n++), g = (x: number): number => (n += x, n as number), h = (): [number, void] => [n, f()], i = (x: any): x is 1 => (n--, x === 1)
f(); return [g(2), h(), i(1), (0 as any, g)(1), n]
//= [4,[4,null],true,6,6]

//# object methods that share names with types
type size = number; interface size2 { size: size } const size = 3, o = { size: size as size, map<size>(f: (x: size) => size, x: size): size { return f(x) }, type(type: string): typeof type { return type } }; class map<map> { constructor(readonly map: map) { } get get(): map { return this.map } }
return [o.size, o.map<size>((x: size): size => x + size, 4), o.type("t"), new map<size>(5).get]
//= [3,7,"t",5]
