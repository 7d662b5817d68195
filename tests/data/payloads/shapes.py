"""Twelve answers of the true shape of well-known APIs, made from fixed seeds, with three questions each.

A question carries the expected answer and two ways to it: from the visible text alone, and from one step with
the result handle. Values are invented; shapes, key names and proportions are those of the real thing. Used by
`tests/output/test_payloads.py` and `tests/benchmarks/output.py`.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PROSE = (
    "request handler returns stale cache entry after the upstream closes connection early when retry budget is "
    "exhausted and the client expects a fresh token so queue depth grows until worker restarts with empty state "
    "please check metrics dashboard before rollout because latency doubled in region west last night"
)
WORDS = PROSE.split()
LOGINS = [
    f"{a}-{b}" for a in ("ada", "lin", "omar", "kei", "ivo", "noa") for b in ("dev", "ops", "qa", "ml", "web")
]


@dataclass
class Seen:
    """What the model has in front of it."""

    text: str
    json: Any = None


@dataclass(frozen=True)
class Question:
    """`visible` answers from what is seen (None where that cannot be known), `stored` from the whole value."""

    text: str
    expected: Any
    visible: Callable[[Seen], Any]
    stored: Callable[[Any], Any]


@dataclass
class Payload:
    name: str
    text: str
    is_json: bool
    questions: list[Question] = field(default_factory=list)


def unknown(_: Seen) -> Any:
    """The visible text does not say: it takes the handle."""
    return None


def prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize() + "."


def stamp(rng: random.Random, year: int = 2026) -> str:
    return f"{year}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}T{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:00Z"


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def github_issues() -> Payload:
    rng = random.Random(1)
    base = "https://api.github.example/repos/acme/rocket"
    labels = [
        {"id": 100 + n, "node_id": f"LA_{n}", "url": f"{base}/labels/{name}", "name": name, "color": "d73a4a",
         "default": n == 0, "description": prose(rng, 6)}
        for n, name in enumerate(["bug", "feature", "docs", "perf", "good first issue"])
    ]  # fmt: skip
    rows = []
    for n in range(100, 0, -1):
        login = rng.choice(LOGINS)
        at = f"https://api.github.example/users/{login}"
        rows.append({
            "url": f"{base}/issues/{n}", "repository_url": base, "labels_url": f"{base}/issues/{n}/labels{{/name}}",
            "comments_url": f"{base}/issues/{n}/comments", "html_url": f"https://github.example/acme/rocket/issues/{n}",
            "id": 2_000_000 + n, "node_id": f"I_{n:08x}", "number": n, "title": prose(rng, 8),
            "user": {"login": login, "id": 500 + LOGINS.index(login), "avatar_url": f"{at}/avatar", "url": at,
                     "followers_url": f"{at}/followers", "repos_url": f"{at}/repos", "type": "User", "site_admin": False},
            "labels": rng.sample(labels, rng.randint(0, 3)),
            "state": "open" if rng.random() < 0.7 else "closed", "locked": False, "assignee": None,
            "milestone": None, "comments": rng.randint(0, 40), "created_at": stamp(rng), "updated_at": stamp(rng),
            "closed_at": None, "author_association": rng.choice(["NONE", "MEMBER", "CONTRIBUTOR"]),
            "body": "\n\n".join(prose(rng, 60) for _ in range(3)),
            "reactions": {"total_count": rng.randint(0, 9), "+1": 1, "-1": 0, "laugh": 0, "heart": 0},
        })  # fmt: skip
    open_count = sum(row["state"] == "open" for row in rows)
    most = max(rows, key=lambda row: row["comments"])
    return Payload("GitHub issues", compact(rows), True, [
        Question("How many issues are there?", 100, lambda s: s.json["total_rows"], len),
        Question("How many are open?", open_count, lambda s: s.json["digest"]["counts"]["state"]["open"],
                 lambda v: sum(r["state"] == "open" for r in v)),
        Question("Which number has most comments?", most["number"], unknown,
                 lambda v: max(v, key=lambda r: r["comments"])["number"]),
    ])  # fmt: skip


def web_search() -> Payload:
    rng = random.Random(2)
    results = [
        {"title": prose(rng, 9), "url": f"https://site{rng.randint(1, 30)}.example/a/{n}", "publishedDate": stamp(rng),
         "author": rng.choice(LOGINS), "score": round(0.9 - n / 200, 4), "id": f"doc-{n}",
         "text": " ".join(prose(rng, 40) for _ in range(6))}
        for n in range(120)
    ]  # fmt: skip
    value = {
        "requestId": "b5947044c4b78efa",
        "resolvedSearchType": "neural",
        "results": results,
        "costDollars": {"total": 0.005},
    }
    on_seven = [row["id"] for row in results if row["url"].startswith("https://site7.")]
    return Payload("Search engine results", compact(value), True, [
        Question("What is the best result's URL?", results[0]["url"],
                 lambda s: s.json["results"]["first_rows"][0]["url"], lambda v: v["results"][0]["url"]),
        Question("What did the search cost?", 0.005, lambda s: s.json["costDollars"]["total"], lambda v: v["costDollars"]["total"]),
        Question("Which results lie on site7?", on_seven, unknown,
                 lambda v: [r["id"] for r in v["results"] if r["url"].startswith("https://site7.")]),
    ])  # fmt: skip


def postgres_explain() -> Payload:
    rng = random.Random(3)

    def node(depth: int) -> dict[str, Any]:
        kinds = ["Hash Join", "Nested Loop", "Merge Join"] if depth else ["Seq Scan", "Index Scan"]
        made: dict[str, Any] = {
            "Node Type": rng.choice(kinds), "Parent Relationship": "Outer", "Parallel Aware": False,
            "Startup Cost": round(rng.uniform(0, 100), 2), "Total Cost": round(rng.uniform(100, 90_000), 2),
            "Plan Rows": rng.randint(1, 100_000), "Plan Width": rng.randint(4, 400),
            "Actual Startup Time": round(rng.uniform(0, 2), 3), "Actual Total Time": round(rng.uniform(2, 900), 3),
            "Actual Rows": rng.randint(0, 100_000), "Actual Loops": 1, "Shared Hit Blocks": rng.randint(0, 9999),
        }  # fmt: skip
        if depth:
            made["Hash Cond"] = "(o.customer_id = c.id)"
            made["Plans"] = [node(depth - 1), node(depth - 1)]
        else:
            made["Relation Name"] = rng.choice(["orders", "customers", "products", "events"])
            made["Filter"] = f"(created_at > '{stamp(rng)}'::timestamptz)"
        return made

    value = [{"Plan": node(8), "Planning Time": 1.482, "Triggers": [], "Execution Time": 913.377}]

    def slowest(plan: dict[str, Any]) -> float:
        return max([plan["Actual Total Time"], *[slowest(inner) for inner in plan.get("Plans", [])]])

    return Payload("Postgres EXPLAIN", compact(value), True, [
        Question("How long did it take?", 913.377, lambda s: s.json["shown"]["[0]"]["Execution Time"], lambda v: v[0]["Execution Time"]),
        Question("What is the top node?", value[0]["Plan"]["Node Type"],
                 lambda s: s.json["shown"]["[0]"]["Plan"]["Node Type"], lambda v: v[0]["Plan"]["Node Type"]),
        Question("What is the slowest node's time?", slowest(value[0]["Plan"]), unknown, lambda v: slowest(v[0]["Plan"])),
    ])  # fmt: skip


def kubernetes_pods() -> Payload:
    rng = random.Random(4)
    items = []
    for n in range(60):
        app = rng.choice(["api", "web", "worker", "cron"])
        name = f"{app}-7d9f{n:04x}-{rng.randrange(16**5):05x}"
        phase = rng.choices(["Running", "Pending", "Failed"], [8, 1, 1])[0]
        containers = [
            {"name": c, "image": f"registry.example/{c}:1.{n % 9}", "ports": [{"containerPort": 8080, "protocol": "TCP"}],
             "env": [{"name": f"SETTING_{k}", "value": prose(rng, 2)} for k in range(8)],
             "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
             "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets"}],
             "imagePullPolicy": "IfNotPresent"}
            for c in (app, "proxy")
        ]  # fmt: skip
        items.append({
            "metadata": {"name": name, "namespace": "prod", "uid": f"{n:032x}", "resourceVersion": str(90_000 + n),
                         "creationTimestamp": stamp(rng), "labels": {"app": app, "pod-template-hash": f"7d9f{n:04x}"}},
            "spec": {"containers": containers, "restartPolicy": "Always", "nodeName": f"node-{n % 7}",
                     "serviceAccountName": "default", "tolerations": [{"key": "not-ready", "operator": "Exists"}]},
            "status": {"phase": phase, "podIP": f"10.0.{n % 7}.{n}", "qosClass": "Burstable",
                       "containerStatuses": [{"name": c["name"], "ready": phase == "Running",
                                              "restartCount": rng.randint(0, 5)} for c in containers]},
        })  # fmt: skip
    value = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "123456"}, "items": items}
    failed = [pod["metadata"]["name"] for pod in items if pod["status"]["phase"] == "Failed"]
    running = sum(pod["status"]["phase"] == "Running" for pod in items)
    return Payload("Kubernetes pods", compact(value), True, [
        Question("How many pods?", 60, lambda s: s.json["items"]["total_rows"], lambda v: len(v["items"])),
        Question("How many are running?", running, lambda s: s.json["items"]["digest"]["counts"]["status.phase"]["Running"],
                 lambda v: sum(p["status"]["phase"] == "Running" for p in v["items"])),
        Question("Which have failed?", failed, unknown,
                 lambda v: [p["metadata"]["name"] for p in v["items"] if p["status"]["phase"] == "Failed"]),
    ])  # fmt: skip


def npm_metadata() -> Payload:
    rng = random.Random(5)
    names = [f"{major}.{minor}.{patch}" for major in range(1, 6) for minor in range(6) for patch in range(5)]
    versions = {
        version: {
            "name": "left-aligned", "version": version, "description": "Pads on the left.", "main": "index.js",
            "license": "MIT", "keywords": ["pad", "string", "left"], "author": {"name": "Ada", "email": "ada@mail.example"},
            "dependencies": {f"dep-{k}": f"^{k}.0.0" for k in range(rng.randint(1, 6))},
            "devDependencies": {f"dev-{k}": f"^{k}.1.0" for k in range(8)},
            "scripts": {"test": "node test.js", "lint": "lint ."}, "engines": {"node": ">=14"}, "_id": f"left-aligned@{version}",
            "dist": {"integrity": "sha512-" + base64.b64encode(rng.randbytes(64)).decode(), "shasum": rng.randbytes(20).hex(),
                     "tarball": f"https://npm.example/left-aligned/-/left-aligned-{version}.tgz",
                     "fileCount": rng.randint(3, 20), "unpackedSize": rng.randint(5000, 90_000)},
        }
        for version in names
    }  # fmt: skip
    value = {
        "_id": "left-aligned", "_rev": "150-abc", "name": "left-aligned", "dist-tags": {"latest": "5.5.4", "next": "5.5.3"},
        "versions": versions, "time": {version: stamp(rng) for version in names},
        "maintainers": [{"name": "ada", "email": "ada@mail.example"}], "license": "MIT",
        "repository": {"type": "git", "url": "git+https://git.example/left-aligned.git"}, "readme": prose(rng, 3000),
    }  # fmt: skip
    return Payload("npm metadata", compact(value), True, [
        Question("What is the latest version?", "5.5.4", lambda s: s.json["shown"]["dist-tags"]["latest"], lambda v: v["dist-tags"]["latest"]),
        Question("Who maintains it?", "ada", lambda s: s.json["shown"]["maintainers"][0]["name"], lambda v: v["maintainers"][0]["name"]),
        Question("What does 3.2.1 depend on?", list(versions["3.2.1"]["dependencies"]), unknown,
                 lambda v: list(v["versions"]["3.2.1"]["dependencies"])),
    ])  # fmt: skip


def server_log() -> Payload:
    rng = random.Random(6)
    lines = ["2026-03-01T00:00:00Z INFO  main      rocket 4.2.1 starting with 8 workers"]
    while sum(map(len, lines[-1:])) and len(lines) < 30_000:
        level = rng.choices(["INFO ", "WARN ", "ERROR"], [90, 8, 2])[0]
        lines.append(
            f"2026-03-01T{len(lines) // 3600:02d}:{len(lines) // 60 % 60:02d}:{len(lines) % 60:02d}Z {level} "
            f"worker-{rng.randint(1, 8)}  {prose(rng, 9)} id={rng.randrange(16**8):08x}"
        )
    lines.append("2026-03-01T09:00:00Z INFO  main      rocket stopped: signal 15")
    text = "\n".join(lines)
    errors = sum(" ERROR " in line for line in lines)
    return Payload("Server log, 3 MB", text, False, [
        Question("Which version started?", "4.2.1", lambda s: _first(r"rocket (\d\S+) starting", s.text), lambda v: _first(r"rocket (\d\S+) starting", v)),
        Question("Why did it stop?", "signal 15", lambda s: _first(r"rocket stopped: (.+)$", s.text), lambda v: _first(r"rocket stopped: (.+)$", v)),
        Question("How many errors?", errors, unknown, lambda v: v.count(" ERROR ")),
    ])  # fmt: skip


def csv_export() -> Payload:
    rng = random.Random(7)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["order_id", "customer", "country", "amount", "ordered_at", "comment"])
    total = 0
    for n in range(6000):
        cents = rng.randint(100, 99_999)
        total += cents
        writer.writerow(
            [
                10_000 + n,
                rng.choice(LOGINS),
                rng.choice(["NO", "IT", "PE"]),
                f"{cents / 100:.2f}",
                stamp(rng),
                prose(rng, 4),
            ]
        )

    def summed(text: str) -> int:
        return sum(round(float(row["amount"]) * 100) for row in csv.DictReader(io.StringIO(text)))

    return Payload("CSV export", out.getvalue(), False, [
        Question("Which columns?", "order_id,customer,country,amount,ordered_at,comment", lambda s: s.text.split("\n")[0], lambda v: v.split("\n")[0]),
        Question("What is the last order's id?", "15999", lambda s: s.text.strip().split("\n")[-1].split(",")[0], lambda v: v.strip().split("\n")[-1].split(",")[0]),
        Question("What is the sum, in cents?", total, unknown, summed),
    ])  # fmt: skip


def calendar() -> Payload:
    rng = random.Random(8)
    items = []
    for n in range(250):
        day = f"2026-{n % 12 + 1:02d}-{n % 28 + 1:02d}"
        items.append({
            "kind": "calendar#event", "etag": f'"{n:016d}"', "id": f"evt{n:05d}", "status": "confirmed" if n % 11 else "cancelled",
            "htmlLink": f"https://calendar.example/event?eid={n:08x}", "created": stamp(rng, 2025), "updated": stamp(rng, 2025),
            "summary": prose(rng, 4), "description": prose(rng, 25),
            "creator": {"email": f"{rng.choice(LOGINS)}@mail.example"}, "organizer": {"email": "team@mail.example"},
            "start": {"dateTime": f"{day}T09:00:00+01:00", "timeZone": "Europe/Rome"},
            "end": {"dateTime": f"{day}T10:00:00+01:00", "timeZone": "Europe/Rome"},
            "attendees": [{"email": f"{login}@mail.example", "responseStatus": rng.choice(["accepted", "declined", "needsAction"])}
                          for login in rng.sample(LOGINS, rng.randint(2, 6))],
            "reminders": {"useDefault": True}, "eventType": "default",
        })  # fmt: skip
    value = {
        "kind": "calendar#events",
        "summary": "Team",
        "timeZone": "Europe/Rome",
        "defaultReminders": [],
        "items": items,
    }
    busiest = Counter(a["email"] for e in items for a in e["attendees"]).most_common(1)[0][1]
    cancelled = sum(event["status"] == "cancelled" for event in items)
    return Payload("Calendar", compact(value), True, [
        Question("How many events?", 250, lambda s: s.json["items"]["total_rows"], lambda v: len(v["items"])),
        Question("How many were cancelled?", cancelled, lambda s: s.json["items"]["digest"]["counts"]["status"]["cancelled"],
                 lambda v: sum(e["status"] == "cancelled" for e in v["items"])),
        Question("How many events has the busiest attendee?", busiest, unknown,
                 lambda v: Counter(a["email"] for e in v["items"] for a in e["attendees"]).most_common(1)[0][1]),
    ])  # fmt: skip


def jira_search() -> Payload:
    rng = random.Random(9)
    issues = []
    for n in range(100):
        who = rng.choice(LOGINS)
        fields = {
            "summary": prose(rng, 8), "description": prose(rng, 120), "created": stamp(rng), "updated": stamp(rng),
            "status": {"self": "https://jira.example/status/3", "name": rng.choice(["To Do", "In Progress", "Done"]), "id": "3"},
            "priority": {"self": "https://jira.example/priority/2", "name": rng.choice(["High", "Low", "Medium"]), "id": "2"},
            "issuetype": {"name": rng.choice(["Bug", "Story", "Task"]), "subtask": False},
            "assignee": {"accountId": f"acc-{LOGINS.index(who)}", "displayName": who, "active": True, "timeZone": "Europe/Rome"},
            "labels": rng.sample(["infra", "ui", "db", "auth"], 2), "fixVersions": [], "components": [],
            "project": {"id": "10000", "key": "ROCK", "name": "Rocket"}, "customfield_10016": rng.choice([None, 1, 2, 3, 5, 8]),
            "votes": {"votes": rng.randint(0, 9), "hasVoted": False}, "watches": {"watchCount": rng.randint(0, 30)},
        }  # fmt: skip
        issues.append({"expand": "operations,changelog", "id": str(30_000 + n), "self": f"https://jira.example/issue/{30_000 + n}",
                       "key": f"ROCK-{900 - n}", "fields": fields})  # fmt: skip
    value = {"expand": "schema,names", "startAt": 0, "maxResults": 100, "total": 4711, "issues": issues}
    points = sum(issue["fields"]["customfield_10016"] or 0 for issue in issues)
    done = sum(issue["fields"]["status"]["name"] == "Done" for issue in issues)
    return Payload("Jira search", compact(value), True, [
        Question("How many match in all?", 4711, lambda s: s.json["total"], lambda v: v["total"]),
        Question("How many of these are done?", done, lambda s: s.json["issues"]["digest"]["counts"]["fields.status.name"]["Done"],
                 lambda v: sum(i["fields"]["status"]["name"] == "Done" for i in v["issues"])),
        Question("How many story points in sum?", points, unknown, lambda v: sum(i["fields"]["customfield_10016"] or 0 for i in v["issues"])),
    ])  # fmt: skip


def openapi() -> Payload:
    rng = random.Random(10)
    things = [
        f"{a}{b}"
        for a in ("order", "user", "cart", "item", "bill", "team")
        for b in ("s", "-notes", "-tags", "-files", "-logs")
    ]
    paths: dict[str, Any] = {}
    for thing in things:
        for path in (f"/{thing}", f"/{thing}/{{id}}"):
            paths[path] = {
                method: {
                    "operationId": f"{method}_{thing}{'_one' if '{' in path else ''}", "summary": prose(rng, 6), "description": prose(rng, 40),
                    "tags": [thing], "parameters": [{"name": name, "in": "query", "required": False, "schema": {"type": "string"},
                                                     "description": prose(rng, 8)} for name in ("limit", "cursor", "fields")],
                    "responses": {code: {"description": prose(rng, 4), "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{thing}"}}}}
                                  for code in ("200", "400", "404")},
                }
                for method in ("get", "post", "delete")
            }  # fmt: skip
    schemas = {thing: {"type": "object", "required": ["id"], "properties": {f"field{k}": {"type": "string", "description": prose(rng, 6)}
                                                                             for k in range(12)}} for thing in things}  # fmt: skip
    value = {"openapi": "3.1.0", "info": {"title": "Rocket API", "version": "2.7.0"}, "servers": [{"url": "https://api.rocket.example/v2"}],
             "paths": paths, "components": {"schemas": schemas}, "security": [{"bearer": []}]}  # fmt: skip
    return Payload("OpenAPI document", compact(value), True, [
        Question("Which version of the API?", "2.7.0", lambda s: s.json["shown"]["info"]["version"], lambda v: v["info"]["version"]),
        Question("Where does it live?", "https://api.rocket.example/v2", lambda s: s.json["shown"]["servers"][0]["url"], lambda v: v["servers"][0]["url"]),
        Question("What does GET /carts/{id} take?", ["limit", "cursor", "fields"], unknown,
                 lambda v: [p["name"] for p in v["paths"]["/carts/{id}"]["get"]["parameters"]]),
    ])  # fmt: skip


def html_page() -> Payload:
    rng = random.Random(11)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Rocket handbook</title>',
        "<style>body{margin:0}</style></head><body>",
    ]
    for n in range(700):
        parts.append(f'<section id="s{n}"><h2>{prose(rng, 4)}</h2>')
        parts.append(f'<p>{prose(rng, 40)} <a href="/page/{rng.randint(1, 99)}">more</a></p></section>')
    parts.append("<footer>Last change 2026-02-03</footer></body></html>")
    text = "\n".join(parts)
    return Payload("HTML page", text, False, [
        Question("What is the title?", "Rocket handbook", lambda s: _first("<title>(.*?)</title>", s.text), lambda v: _first("<title>(.*?)</title>", v)),
        Question("When was it changed?", "2026-02-03", lambda s: _first(r"Last change (\S+?)<", s.text), lambda v: _first(r"Last change (\S+?)<", v)),
        Question("How many links to page 7?", text.count('href="/page/7"'), unknown, lambda v: v.count('href="/page/7"')),
    ])  # fmt: skip


def base64_in_json() -> Payload:
    data = random.Random(12).randbytes(150_000)
    value = {"name": "scan.pdf", "path": "docs/scan.pdf", "sha": hashlib.sha1(data, usedforsecurity=False).hexdigest(), "size": len(data),
             "type": "file", "content": base64.b64encode(data).decode(), "encoding": "base64"}  # fmt: skip
    return Payload("base64 in JSON", compact(value), True, [
        Question("How large is the file?", 150_000, lambda s: s.json["shown"]["size"], lambda v: v["size"]),
        Question("What is its name?", "scan.pdf", lambda s: s.json["shown"]["name"], lambda v: v["name"]),
        Question("What is its SHA-256?", hashlib.sha256(data).hexdigest(), unknown,
                 lambda v: hashlib.sha256(base64.b64decode(v["content"])).hexdigest()),
    ])  # fmt: skip


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else None


def payloads() -> list[Payload]:
    return [
        github_issues(), web_search(), postgres_explain(), kubernetes_pods(), npm_metadata(), server_log(),
        csv_export(), calendar(), jira_search(), openapi(), html_page(), base64_in_json(),
    ]  # fmt: skip
