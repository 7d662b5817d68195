"""Erased code gives what the TypeScript compiler's output gives: hand-written and composed programs, both under Node.

The composed programs draw types, casts and declarations at random (by seed, so the same each time) and then move line
breaks, comments and semicolons about, where most erasers go wrong. The compiler is the judge: what it rejects or what
throws in its own output the same way counts as agreement only if both do so.
"""

import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.npm import missing
from gatemini_sandbox.typescript.prepare import prepare
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

HERE = Path(__file__).parent
NPM = HERE.parents[2] / "npm"
CASES = HERE.parent / "cases"
COMPOSED = 300
# Node starts, compiles and runs some three hundred programs well within this.
NODE_SECONDS = 300

pytestmark = [
    pytest.mark.npm,
    pytest.mark.long,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

# Where TypeScript itself allows no line break, after and before these words.
STAYS_BEFORE = frozenset(
    (
        "interface",
        "type",
        "abstract",
        "async",
        "return",
        "throw",
        "yield",
        "declare",
        "namespace",
        "private",
        "protected",
        "public",
        "readonly",
        "override",
    )
)
# Words that TypeScript gives a meaning to in places, and JavaScript leaves free for names in most.
WORDS = (
    *(
        "abstract",
        "accessor",
        "any",
        "asserts",
        "async",
        "constructor",
        "declare",
        "enum",
        "from",
        "get",
        "global",
    ),
    *(
        "implements",
        "infer",
        "interface",
        "is",
        "keyof",
        "module",
        "namespace",
        "never",
        "number",
        "object",
        "of",
    ),
    *("out", "override", "private", "protected", "public", "readonly", "require", "set", "static", "string"),
    *("symbol", "type", "undefined", "unique", "unknown", "using"),
)
MEMBERS = (
    "class C {{ a = 1; {0}() {{ return 4 }} b = 2 }}\nreturn (new C() as any).{0}();",
    "class C {{ a = 1\n{0}<T>(x?: T): any {{ return 4 }} }}\nreturn (new C() as any).{0}?.();",
    "class C {{ async {0}(): Promise<number> {{ return 4 }} *{0}2() {{ yield 1 }} }}\nreturn await (new C() as any).{0}();",
    "class C {{ get {0}(): number {{ return 6 }} set {0}(v: number) {{}} }}\nreturn (new C() as any).{0};",
    "class C {{\n  a = 1\n  {0} = 2\n  b: number = 3\n}}\nreturn new C();",
    "class C {{ {0}; b = 1; readonly {0}2 = 3; private static {0}3?: number }}\nreturn Object.keys(new C());",
    "class C {{ private {0}(): number {{ return 3 }} public static {0}2() {{ return 2 }} }}\nreturn (C as any).{0}2();",
    "const o = {{ {0}: 1, b: {{ {0}() {{ return 2 }} }}, async {0}2() {{}} }};\nreturn [o.{0}, o.b.{0}()];",
    "abstract class A {{ abstract {0}(): void; abstract {0}2: number; declare {0}3: any }}\nreturn typeof A;",
    "enum E {{ A = 1, {0}, {0}2 = 'x' }}\nreturn E;",
)
STAYS_AFTER = ("as", "satisfies", "extends", "[", "=>", "!")


def written() -> dict[str, str]:
    """Programs of cases/*.ts, by the name in their `//# name` line."""
    programs = {}
    for path in sorted(CASES.glob("*.ts")):
        parts = re.split(r"^//# (.*)\n", path.read_text("utf-8"), flags=re.MULTILINE)
        programs.update(
            {f"{path.stem}: {name}": body for name, body in zip(parts[1::2], parts[2::2], strict=True)}
        )
    return programs


class Composer:
    """Draws one program from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def type(self, depth: int = 2) -> str:
        if depth == 0:
            return self.pick(
                "number", "string", "any", "unknown", "null", "'lit'", "1", "T.U", "this", "Array<any>"
            )
        inner = [self.type(depth - 1) for _ in range(3)]
        return self.pick(
            f"{inner[0]} | {inner[1]}",
            f"{inner[0]} & {inner[1]}",
            f"( | {inner[0]} | {inner[1]} )",
            f"( {inner[0]} )[ ]",
            f"( readonly ( {inner[0]} )[] )",
            f"Map< {inner[0]} , {inner[1]} >",
            f"Promise<Map<string, {inner[0]}>>",
            f"{{ a : {inner[0]} ; b ? : {inner[1]} , readonly c : {inner[2]} }}",
            f"{{ [ key : string ] : {inner[0]} ; m < Q > ( x : {inner[1]} ) : void }}",
            f"( ( a : {inner[0]} , b ? : {inner[1]} ) => {inner[2]} )",
            f"( new ( ... a : {inner[0]} [] ) => {inner[1]} )",
            f"[ {inner[0]} , {inner[1]} ? ]",
            f"( {inner[0]} extends infer U ? {inner[1]} : {inner[2]} )",
            f"{{ [ K in keyof {inner[0]} as `x${{K}}` ] -?: {inner[1]} }}",
            "keyof typeof globalThis",
            "typeof out [ number ]",
            f"( < G extends {inner[0]} = any > ( x : G ) => G )",
        )

    def value(self, depth: int = 3, awaits: bool = True) -> str:
        """An expression that gives a number."""
        if depth == 0:
            return self.pick("1", "2", "7", "out.length", "n0", "( n0 )", "( await n0 )" if awaits else "n0")
        a, b = self.value(depth - 1, awaits), self.value(depth - 1, awaits)
        c = self.value(depth - 1, awaits=False)
        t = self.type(self.random.randrange(3))
        return self.pick(
            f"( {a} as {t} as number )",
            f"( < any > {a} )",
            f"( < number > < {t} > ( {a} ) )",
            f"( {a} )!",
            f"( {a} satisfies {t} )",
            f"( {a} + {b} )",
            f"( {a} - {b} as number )",
            f"id < {t} > ( {a} )",
            f"id ( {a} as {t} )",
            f"( ( x : {t} , y ? : {t} ) : {t} => x ) ( {a} )",
            f"( < A , B = {t} > ( x : A ) : A => x ) < number > ( {a} )",
            f"( function < Q > ( this : any , q : Q ) : Q {{ return q }} ) . call ( null , {a} )",
            f"[ {a} , {b} ] [ 0 ]!",
            f"( {{ k : {a} , m < Z > ( z : Z ) : number {{ return {c} }} }} as {t} ) . k",
            f"( {a} < {b} ? {a} : < any > {b} )",
            f"[ n0 < out.length , n0 > - {c} ] . length",
            f"( await ( async < W , > ( x : W ) : Promise < W > => x ) ( {a} ) )" if awaits else a,
            f"new Box < {t} > ( {a} ) . v!",
            f"( ( ) : number => < any > {{ q : {c} }}.q || {c} ) ( )",
            f"Number ( `${{ {a} as {t} }}` )",
            f"( ( ) => {{ return <{t}>( {self.value(0, awaits=False)} ) }} ) ( )",
        )

    def statement(self) -> str:
        n, m = self.name("v"), self.name("w")
        t, u = self.type(), self.type(1)
        a, b, c = self.value(), self.value(1), self.value(1, awaits=False)
        return self.pick(
            f"const {n} : {t} = {a} ; out.push ( {n} as number ) ;",
            f"let {n} : {t} ; {n} = {a} ; [ {n} ] = [ {b} ] ; out.push ( {n}! ) ;",
            f"let {n} ! : {t} ; ( {n} as {u} ) = {b} ; out.push ( {n} ) ;",
            f"var {n} = {a} as {t} ; ( out ).push ( {n} ) ;",
            f"interface {n} < Q = {u} > extends {m} {{ a : {t} ; b ? ( ) : {u} }} ; out.push ( {b} ) ;",
            f"type {n} < Q extends {u} > = {t} ; ( out ).push ( {b} ) ;",
            f"function {n} < Q > ( a : {t} , b ? : {u} , ... c : {u} [] ) : {t} {{ return a }} out.push ( {n} ( {a} ) ) ;",
            f"function {n} ( a : {t} ) : {u} ; function {n} ( a : any ) {{ return a }} out.push ( {n} ( {b} ) ) ;",
            f"const {n} = async ( a : {t} ) : Promise < {u} > => a ; out.push ( await {n} ( {a} ) ) ;",
            f"const {n} = < Q , > ( a : Q ) : a is {u} => !! a ; out.push ( {n} ( {b} ) ) ;",
            f"enum {n} {{ A , B = {self.random.randrange(9)} , C , 'd e' = 'x' , E = {c} , F = A | B , }} out.push ( {n}.C , {n} ) ;",
            f"const enum {n} {{ A = {self.random.randrange(9)} , B = A + 1 , C }} out.push ( {n}.B , {n}.C ) ;",
            f"namespace {n} {{ export const a : {t} = {c} ; export type T = {u} ; export function f ( ) : {u} {{ return a }} }}"
            f" out.push ( {n}.f ( ) , {n} ) ;",
            f"declare const {n} : {t} ; out.push ( typeof {n} ) ;",
            f"class {n} < Q > implements I<{u}> {{ private readonly a : {t} = {c} ; b ? : {u} ; static c : {u} ;"
            f" [ key : string ] : {u} ; constructor ( public d : {t} , e ? : {u} ) {{ }}"
            f" public m < R > ( this : {n}<any> , x : R ) : R {{ return x }} get g ( ) : {u} {{ return this.d }} }}"
            f" out.push ( new {n} < {u} > ( {b} ) . m ( {a} ) , new {n} ( 3 ) ) ;",
            f"abstract class {n} {{ abstract x : {t} ; protected abstract y ( ) : {u} ; z : {u} = {c} ; declare w : {u} ;"
            f" private * [ Symbol.iterator ] ( ) : {u} {{ yield this.z }} }} class {m} extends {n} {{ override z = {c} ;"
            f" x = 1 ; y ( ) {{ return 2 }} }} out.push ( [ ... new {m} ( ) as any ] , new {m} ( ) ) ;",
            f"for ( const {n} of [ {a} , {b} ] as {t} ) {{ type Z = {u} ; out.push ( {n} as Z ) ; }}",
            f"if ( {b} as {u} ) {{ out.push ( {a} ) ; }} else {{ interface Q {{ }} }}",
            f"try {{ throw {b} as {u} ; }} catch ( e : unknown ) {{ out.push ( e as {u} ) ; }}",
            f"const {{ a : {n} , ... {m} }} : {t} = {{ a : {b} , z : {b} }} as {u} ; out.push ( {n} , {m} ) ;",
        )

    def program(self) -> str:
        head = (
            "const out: any[] = [];\nlet n0: number = 4;\nconst id = <T,>(x: T): T => x;\n"
            "class Box<T> { constructor(readonly v?: T) {} }\n"
        )
        body = "\n".join(self.statement() for _ in range(self.random.randrange(2, 6)))
        return f"{head}{self.shake(body)}\nreturn out;"

    def shake(self, code: str) -> str:
        """Other white space, comments, fewer semicolons: the strings in these programs hold no plain blank."""
        rate = self.random.choice([0.0, 0.02, 0.1, 0.3])
        drop = self.random.choice([0.0, 0.3, 1.0])
        pieces = re.split(r"( ;\n| ; | (?!e'))", code)
        for index in range(1, len(pieces), 2):
            before, after = pieces[index - 1], pieces[index + 1]
            if pieces[index].strip() == ";" and self.random.random() < drop:
                pieces[index] = "\n"
            elif pieces[index] == " " and self.random.random() < rate:
                one_line = bool(STAYS_BEFORE.intersection(before.split()[-1:])) or after.startswith(
                    STAYS_AFTER
                )
                blanks = (
                    (" /* c */ ", "  ", "\t")
                    if one_line
                    else ("\n", "\n\t", " // c\n", "/**/\n", " /* c\n */")
                )
                pieces[index] = self.pick(*blanks)
        return "".join(pieces)


def compare(programs: dict[str, str]) -> list[dict[str, Any]]:
    items, refusals = [], {}
    for name, source in programs.items():
        try:
            ours: str | None = prepare(source).js
        except SandboxSyntaxError as error:
            ours, refusals[name] = None, str(error)
        items.append({"id": name, "ours": ours, "source": source})
    run = subprocess.run(
        ["node", str(HERE / "run.mjs"), str(NPM)],
        input=json.dumps(items),
        capture_output=True,
        text=True,
        timeout=NODE_SECONDS,
        check=True,
    )
    results: list[dict[str, Any]] = json.loads(run.stdout)
    for result, item in zip(results, items, strict=True):
        result.update(source=item["source"], erased=item["ours"], refusal=refusals.get(result["id"]))
    return results


def disagreements(results: list[dict[str, Any]]) -> str:
    wrong = [
        r
        for r in results
        if r["theirs"] not in ("rejected", "threw SyntaxError") and r["ours"] != r["theirs"]
    ]
    return "\n\n".join(
        f"{r['id']}\nours {r['ours']}\ntsc  {r['theirs']}\n{r['refusal'] or ''}\n{r['source']}\n-- erased\n{r['erased']}"
        for r in wrong[:5]
    )


def test_written_programs_give_what_the_compilers_output_gives() -> None:
    results = compare(written())
    assert not disagreements(results)
    assert sum(r["theirs"] not in ("rejected", "threw SyntaxError") for r in results) >= 316


def test_composed_programs_give_what_the_compilers_output_gives() -> None:
    results = compare({f"seed {seed}": Composer(seed).program() for seed in range(COMPOSED)})
    assert not disagreements(results)
    # Programs that the compiler takes and that run to their end, or the comparison says little.
    assert sum(r["theirs"].startswith("[") for r in results) >= COMPOSED * 0.6


def test_members_named_like_words_of_the_language_are_members() -> None:
    programs = {f"{word} in {form}": form.format(word) for word in WORDS for form in MEMBERS}
    results = compare(programs)
    assert not disagreements(results)
    assert sum(r["theirs"] not in ("rejected", "threw SyntaxError") for r in results) >= len(results) * 0.9
