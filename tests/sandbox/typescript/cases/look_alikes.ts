//# instantiation at the end of a line
const f = <T,>(x: T): T => x
const g = f<number>

const h = f<Map<string, number>> // made

g(1)
const k = f<string[]> /* last */
let r = [g(2), h(new Map()).size]
const m = f<{ a: number }>
if (r) r.push(m({ a: 3 }).a)
return r
//= [2,0,3]

//# comparisons with signs behind that look like type arguments
const a: number = 1, b = 2, c = 3, o = { d: [4], e: { f: -1 } };
const f = (...xs: any[]) => xs.length, g = <T, U>(x: T): T => x;
return [[a < b, c > -1], f(a < b, c > +b), f(a < b, c > [0].length), [a < b, c > o.d[0]!], [a < b, c > !b as any], [a < b, c >> 1], f(a < b, c > - o.e.f), { x: a < b, y: c > -b }, g<number, string>(2), [a < c, b > <number>-1]];
//= [[true,true],2,2,[true,false],[true,true],[true,1],2,{"x":true,"y":true},2,[true,true]]

//# super with a class of its own among its arguments
class A { constructor(public of: any) {} }
class B extends A { constructor(public n: number, private m = 2) { super(class extends A { constructor(public k = n) { super(k) } }) } }
const b = new B(1), k = new b.of();
return [b.n, k];
//= [1,{"of":1,"k":1}]

//# namespaces with their brace on the next line
namespace Geo
{
    export namespace Flat
    {
        export const PI: number = 3;
        export function area(r: number): number
        {
            return PI * r * r;
        }
    }
    export class Point
    {
        constructor(public x: number, public y: number = 0)
        {
        }
        sum(): number
        {
            return this.x + this.y;
        }
    }
}
enum Kind
{
    A = 1,
    B
}
namespace Kind
{
    export const all = (): Kind[] => [Kind.A, Kind.B];
}
return [Geo.Flat.area(2), new Geo.Point(1).sum(), Kind.all()];
//= [12,1,[1,2]]

//# constant enums that count on others
enum Plain { A = 4, B }
const enum First { X = Plain.B, Y = X + 1 }
const enum Second { P = First.Y * 2 }
const enum Top { Z = 9 }
return [First.X, Second.P, Top.Z];
//= [5,12,9]

//# members called abstract
class Paper { abstract = "text"; title: string; constructor(title: string) { this.title = title } }
class Old { private readonly a = 1; abstract() { return this.a } static abstract(n: number) { return n } get z() { return this.abstract() + Old.abstract(2) } }
const o = { abstract(): string { return "o" }, async abstract2() { return 1 } }, { abstract } = new Paper("t");
return [abstract, new Old().z, o.abstract(), await o.abstract2(), new Paper("p").abstract.length];
//= ["text",3,"o",1,4]
