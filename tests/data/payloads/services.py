"""Seven more answers of the true shape of well-known services: chat, payments, plans of infrastructure, errors, schemas, search, metrics.

Made like those of `shapes.py`, with its `Payload` and `Question`.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from data.payloads.shapes import LOGINS, WORDS, Payload, Question, Seen, compact, prose, stamp, unknown


def told(seen: Seen) -> Any:
    """The document, or what is shown of it beside a list of key paths."""
    return seen.json.get("shown", seen.json)


def slack_history() -> Payload:
    """`conversations.history`: people, bots and joins, most of them without what others have."""
    rng = random.Random(21)
    users = [f"U{n:010X}" for n in rng.sample(range(16**6), 14)]
    messages = []
    for n in range(200, 0, -1):
        text = prose(rng, rng.randint(4, 60))
        user = rng.choice(users)
        made: dict[str, Any] = {"type": "message", "ts": f"17{70_000_000 + n * 977}.{n:06}", "text": text}
        kind = rng.random()
        if kind < 0.1:
            made |= {"subtype": "channel_join", "user": user, "text": f"<@{user}> has joined the channel"}
        elif kind < 0.25:
            made |= {"subtype": "bot_message", "bot_id": "B0DEPLOY", "username": "deploys",
                     "attachments": [{"id": 1, "color": "2eb886", "fallback": text, "title": f"Deploy {n}", "text": text}]}  # fmt: skip
        else:
            made |= {"user": user, "client_msg_id": f"{rng.randrange(16**8):08x}-c0de", "team": "T0TEAM",
                     "blocks": [{"type": "rich_text", "block_id": f"b{n}", "elements": [
                         {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}]}]}  # fmt: skip
            if rng.random() < 0.3:
                made |= {"thread_ts": made["ts"], "reply_count": rng.randint(1, 30), "reply_users_count": 2,
                         "latest_reply": "1799999999.000100", "reply_users": rng.sample(users, 2), "subscribed": False}  # fmt: skip
            if rng.random() < 0.25:
                made["reactions"] = [{"name": name, "users": rng.sample(users, 3), "count": 3} for name in rng.sample(WORDS, 2)]  # fmt: skip
            if rng.random() < 0.1:
                made["edited"] = {"user": user, "ts": made["ts"]}
        messages.append(made)
    value = {"ok": True, "messages": messages, "has_more": True, "pin_count": 2, "channel_actions_count": 0,
             "response_metadata": {"next_cursor": "bmV4dF90czoxNzcw"}}  # fmt: skip
    bots = sum(m.get("subtype") == "bot_message" for m in messages)
    longest = max(messages, key=lambda m: m.get("reply_count", 0))["ts"]
    return Payload("Slack history", compact(value), True, [
        Question("Are there more messages, and from where on?", "bmV4dF90czoxNzcw",
                 lambda s: told(s)["response_metadata"]["next_cursor"], lambda v: v["response_metadata"]["next_cursor"]),
        Question("How many of these are from bots?", bots,
                 lambda s: told(s)["messages"]["digest"]["counts"]["subtype"]["bot_message"],
                 lambda v: sum(m.get("subtype") == "bot_message" for m in v["messages"])),
        Question("Which thread is the longest?", longest, unknown,
                 lambda v: max(v["messages"], key=lambda m: m.get("reply_count", 0))["ts"]),
    ])  # fmt: skip


def stripe_charges() -> Payload:
    """`GET /v1/charges`: a list object; most of a charge is objects and nulls."""
    rng = random.Random(22)
    rows = []
    for n in range(100):
        failed = rng.random() < 0.12
        amount = rng.randint(500, 90_000)
        rows.append({
            "id": f"ch_{rng.randrange(16**12):012x}", "object": "charge", "amount": amount,
            "amount_captured": 0 if failed else amount, "amount_refunded": 0, "application": None,
            "balance_transaction": f"txn_{n:08x}", "captured": not failed, "created": 1_770_000_000 - n * 7_919,
            "billing_details": {"address": {"city": None, "country": rng.choice(["DE", "FR", "US"]), "line1": None, "postal_code": None},
                                "email": f"{rng.choice(LOGINS)}@mail.example", "name": prose(rng, 2)[:-1], "phone": None},
            "currency": rng.choice(["eur", "eur", "usd"]), "customer": f"cus_{n % 40:08x}", "description": prose(rng, 5),
            "disputed": False, "failure_code": "card_declined" if failed else None, "fraud_details": {}, "invoice": None,
            "livemode": True, "metadata": {"order_id": str(40_000 + n)},
            "outcome": {"network_status": "declined_by_network" if failed else "approved_by_network", "risk_level": "normal",
                        "risk_score": rng.randint(0, 70), "type": "issuer_declined" if failed else "authorized"},
            "paid": not failed, "payment_method": f"pm_{n:08x}",
            "payment_method_details": {"type": "card", "card": {"brand": rng.choice(["visa", "mastercard"]), "country": "DE",
                                       "exp_month": 1 + n % 12, "exp_year": 2029, "funding": "credit", "last4": f"{n * 37 % 10_000:04}",
                                       "checks": {"cvc_check": "pass", "address_line1_check": None}, "wallet": None}},
            "receipt_url": f"https://pay.example/receipts/{n:032x}", "refunded": False, "status": "failed" if failed else "succeeded",
        })  # fmt: skip
    value = {"object": "list", "url": "/v1/charges", "has_more": True, "data": rows}
    captured = sum(row["amount_captured"] for row in rows if row["currency"] == "eur")
    return Payload("Stripe charges", compact(value), True, [
        Question("Are there more charges than these?", (True, 100), lambda s: (s.json["has_more"], s.json["data"]["total_rows"]),
                 lambda v: (v["has_more"], len(v["data"]))),
        Question("How many failed?", sum(r["status"] == "failed" for r in rows), lambda s: s.json["data"]["digest"]["counts"]["status"]["failed"],
                 lambda v: sum(r["status"] == "failed" for r in v["data"])),
        Question("How much was captured in EUR?", captured, unknown,
                 lambda v: sum(r["amount_captured"] for r in v["data"] if r["currency"] == "eur")),
    ])  # fmt: skip


def terraform_plan() -> Payload:
    """`terraform show -json`: the same resources thrice, as planned, as changed and as configured."""
    rng = random.Random(23)
    kinds = ["aws_instance", "aws_s3_bucket", "aws_security_group", "aws_iam_role"]
    planned, changes, configured = [], [], []
    for n in range(90):
        kind = kinds[n % 4]
        address = f"module.{rng.choice(['net', 'app', 'data'])}.{kind}.r{n}"
        after = {"name": f"r{n}", "tags": {"team": rng.choice(["red", "blue"]), "env": "prod", "cost": str(n % 9)}, "arn": None,
                 "region": "eu-west-1", "policy": prose(rng, 30), "timeouts": None, "rules": [{"from": 80, "to": 443, "cidr": ["10.0.0.0/8"]}]}  # fmt: skip
        actions = rng.choices(
            [["no-op"], ["create"], ["update"], ["delete"], ["delete", "create"]], [50, 20, 20, 5, 5]
        )[0]
        shared = {
            "address": address,
            "mode": "managed",
            "type": kind,
            "name": f"r{n}",
            "provider_name": "registry.example/hashicorp/aws",
        }
        planned.append({**shared, "schema_version": 1, "values": after, "sensitive_values": {"tags": {}}})
        changes.append({**shared, "module_address": address.rsplit(".", 2)[0],
                        "change": {"actions": actions, "before": {**after, "policy": prose(rng, 30)}, "after": after,
                                   "after_unknown": {"arn": True}, "before_sensitive": {}, "after_sensitive": {}}})  # fmt: skip
        configured.append(
            {
                **shared,
                "expressions": {
                    "name": {"references": ["var.name"]},
                    "tags": {"constant_value": {"env": "prod"}},
                },
            }
        )
    value = {
        "format_version": "1.2", "terraform_version": "1.9.5", "applyable": True, "complete": True, "errored": False,
        "variables": {"region": {"value": "eu-west-1"}, "size": {"value": "large"}},
        "planned_values": {"outputs": {"url": {"sensitive": False, "type": "string"}}, "root_module": {"resources": planned}},
        "resource_changes": changes,
        "output_changes": {"url": {"actions": ["create"], "before": None, "after_unknown": True}},
        "configuration": {"provider_config": {"aws": {"name": "aws", "version_constraint": "~> 5.0"}}, "root_module": {"resources": configured}},
        "timestamp": stamp(rng),
    }  # fmt: skip
    gone = [c["address"] for c in changes if c["change"]["actions"] == ["delete"]]
    return Payload("Terraform plan", compact(value), True, [
        Question("Which version of Terraform made it, and is it complete?", ("1.9.5", True),
                 lambda s: (s.json["terraform_version"], s.json["complete"]), lambda v: (v["terraform_version"], v["complete"])),
        Question("How many resources does it look at?", 90, lambda s: s.json["resource_changes"]["total_rows"], lambda v: len(v["resource_changes"])),
        Question("What would be destroyed?", gone, unknown,
                 lambda v: [c["address"] for c in v["resource_changes"] if c["change"]["actions"] == ["delete"]]),
    ])  # fmt: skip


def sentry_event() -> Payload:
    """One event of an error tracker: entries of every kind in one array, the stack trace deep inside."""
    rng = random.Random(24)
    frames = [
        {"filename": f"app/{rng.choice(WORDS)}/{rng.choice(WORDS)}.py", "absPath": f"/srv/app/{n}.py", "module": f"app.m{n}",
         "function": f"handle_{rng.choice(WORDS)}", "lineNo": rng.randint(10, 900), "colNo": None, "inApp": n % 3 == 0, "platform": None,
         "context": [[line, f"    {prose(rng, 8)}"] for line in range(40, 51)],
         "vars": {name: prose(rng, 12) for name in rng.sample(WORDS, 6)}}
        for n in range(70)
    ]  # fmt: skip
    crumbs = [
        {"type": "http", "timestamp": stamp(rng), "level": rng.choice(["info", "info", "warning", "error"]), "category": "requests",
         "message": prose(rng, 14), "data": {"method": "GET", "status_code": rng.choice([200, 200, 404, 500]), "url": f"https://up.example/{n}"}}
        for n in range(100)
    ]  # fmt: skip
    title = "TimeoutError: upstream closes connection early"
    value = {
        "id": "a" * 32, "eventID": "a" * 32, "groupID": "4711", "projectID": "7", "title": title, "message": "", "platform": "python",
        "dateCreated": stamp(rng), "culprit": "app.checkout in pay", "location": "app/checkout.py", "size": 130_000, "errors": [],
        "user": {"id": "900", "email": None, "username": "ada-dev", "ip_address": "10.0.0.9"},
        "tags": [{"key": key, "value": item} for key, item in
                 [("environment", "production"), ("release", "rocket@4.2.1"), ("level", "error"), ("server_name", "web-7"), ("runtime", "CPython 3.12"),
                  *[(f"feature_{word}", str(n % 2)) for n, word in enumerate(WORDS[:25])]]],
        "contexts": {"runtime": {"name": "CPython", "version": "3.12.1", "type": "runtime"}, "os": {"name": "Linux", "version": "6.8"},
                     "trace": {"trace_id": "b" * 32, "span_id": "c" * 16, "op": "http.server", "status": "internal_error"}},
        "entries": [
            {"type": "exception", "data": {"values": [{"type": "TimeoutError", "value": "upstream closes connection early", "module": None,
                                                       "mechanism": {"type": "django", "handled": False}, "stacktrace": {"frames": frames}}],
                                           "hasSystemFrames": True}},
            {"type": "breadcrumbs", "data": {"values": crumbs}},
            {"type": "request", "data": {"method": "POST", "url": "https://shop.example/pay", "headers": [["Host", "shop.example"], ["Accept", "*/*"]],
                                         "data": {"card": "[Filtered]"}, "query": []}},
        ],
        "packages": {f"package-{n}": f"{n}.0.{n % 7}" for n in range(180)}, "sdk": {"name": "sentry.python", "version": "2.14.0"},
    }  # fmt: skip
    last = [f"{f['filename']}:{f['lineNo']}" for f in frames if f["inApp"]][-1]

    def where(v: Any) -> str:
        inside = v["entries"][0]["data"]["values"][0]["stacktrace"]["frames"]
        return [f"{f['filename']}:{f['lineNo']}" for f in inside if f["inApp"]][-1]

    return Payload("Sentry event", compact(value), True, [
        Question("What went wrong, and where?", (title, "app.checkout in pay"), lambda s: (told(s)["title"], told(s)["culprit"]),
                 lambda v: (v["title"], v["culprit"])),
        Question("Who met it?", "ada-dev", lambda s: told(s)["user"]["username"], lambda v: v["user"]["username"]),
        Question("Which line of ours was it?", last, unknown, where),
    ])  # fmt: skip


def graphql_introspection() -> Payload:
    """The answer to the introspection query: types of every kind in one array, each with the same keys."""
    rng = random.Random(25)

    def typed(name: str) -> dict[str, Any]:
        return {"kind": "NON_NULL", "name": None, "ofType": {"kind": "OBJECT", "name": name, "ofType": None}}

    names = [
        f"{a.title()}{b.title()}"
        for a in WORDS[:14]
        for b in ("node", "edge", "page", "input", "order", "state", "event")
    ]
    types = [
        {"kind": kind, "name": name, "description": prose(rng, 12),
         "fields": [{"name": word, "description": prose(rng, 9), "isDeprecated": False, "deprecationReason": None,
                     "args": [{"name": "first", "description": None, "type": {"kind": "SCALAR", "name": "Int", "ofType": None}, "defaultValue": None}],
                     "type": typed(rng.choice(names))} for word in rng.sample(WORDS, rng.randint(2, 9))] if kind == "OBJECT" else None,
         "inputFields": [{"name": word, "description": None, "type": typed("Int"), "defaultValue": None} for word in rng.sample(WORDS, 4)]
                        if kind == "INPUT_OBJECT" else None,
         "interfaces": [] if kind == "OBJECT" else None,
         "enumValues": [{"name": word.upper(), "description": None, "isDeprecated": False} for word in rng.sample(WORDS, 5)] if kind == "ENUM" else None,
         "possibleTypes": None}
        for name in dict.fromkeys(names)
        for kind in [{"Input": "INPUT_OBJECT", "State": "ENUM"}.get(name[-5:], "OBJECT")]
    ]  # fmt: skip
    value = {"data": {"__schema": {
        "queryType": {"name": "Query"}, "mutationType": {"name": "ShopMutation"}, "subscriptionType": None, "types": types,
        "directives": [{"name": name, "description": prose(rng, 9), "locations": ["FIELD"], "args": []} for name in ("include", "skip", "deprecated")],
    }}}  # fmt: skip
    enums = sum(made["kind"] == "ENUM" for made in types)
    wanted = types[61]
    fields = [f["name"] for f in (wanted["fields"] or wanted["inputFields"] or wanted["enumValues"])]

    def fields_of(v: Any) -> list[str]:
        found = next(made for made in v["data"]["__schema"]["types"] if made["name"] == wanted["name"])
        return [f["name"] for f in (found["fields"] or found["inputFields"] or found["enumValues"])]

    return Payload("GraphQL introspection", compact(value), True, [
        Question("What is the type of mutations called?", "ShopMutation",
                 lambda s: s.json["data"]["__schema"]["mutationType"]["name"], lambda v: v["data"]["__schema"]["mutationType"]["name"]),
        Question("How many enums are there?", enums, lambda s: s.json["data"]["__schema"]["types"]["digest"]["counts"]["kind"]["ENUM"],
                 lambda v: sum(made["kind"] == "ENUM" for made in v["data"]["__schema"]["types"])),
        Question(f"What does {wanted['name']} consist of?", fields, unknown, fields_of),
    ])  # fmt: skip


def elasticsearch_hits() -> Payload:
    """`_search` with hits and aggregations."""
    rng = random.Random(26)
    hits = [
        {"_index": f"logs-2026.03.{n % 9 + 1:02}", "_id": f"{rng.randrange(16**10):010x}", "_score": round(9 - n / 40, 4),
         "_source": {"@timestamp": stamp(rng), "host": {"name": f"web-{rng.randint(1, 9)}", "ip": ["10.0.0.1", "fe80::1"]},
                     "http": {"request": {"method": "GET", "bytes": rng.randint(100, 9_000)}, "response": {"status_code": rng.choice([200, 404, 500])}},
                     "message": prose(rng, 40), "log": {"level": rng.choice(["info", "warn", "error"]), "offset": n * 731},
                     "tags": rng.sample(WORDS, 3), "user_agent": {"original": "Mozilla/5.0 (X11; Linux x86_64)", "name": "Firefox"}},
         "highlight": {"message": [f"<em>{rng.choice(WORDS)}</em> {prose(rng, 8)}"]}, "sort": [1_770_000_000_000 - n]}
        for n in range(200)
    ]  # fmt: skip
    value = {
        "took": 37, "timed_out": False, "_shards": {"total": 9, "successful": 9, "skipped": 0, "failed": 0},
        "hits": {"total": {"value": 10_000, "relation": "gte"}, "max_score": 9.0, "hits": hits},
        "aggregations": {
            "by_status": {"doc_count_error_upper_bound": 0, "sum_other_doc_count": 0,
                          "buckets": [{"key": code, "doc_count": count} for code, count in ((200, 9_120), (500, 640), (404, 240))]},
            "per_hour": {"buckets": [{"key_as_string": f"2026-03-01T{h:02}:00:00Z", "key": 1_770_000_000_000 + h * 3_600_000,
                                      "doc_count": rng.randint(200, 700), "p95": {"values": {"95.0": round(rng.uniform(80, 900), 2)}}} for h in range(24)]},
        },
    }  # fmt: skip
    on_three = [hit["_id"] for hit in hits if hit["_source"]["host"]["name"] == "web-3"]
    return Payload("Elasticsearch", compact(value), True, [
        Question("How many documents match?", (10_000, "gte"), lambda s: (s.json["hits"]["total"]["value"], s.json["hits"]["total"]["relation"]),
                 lambda v: (v["hits"]["total"]["value"], v["hits"]["total"]["relation"])),
        Question("How many answered 500?", 640,
                 lambda s: {b["key"]: b["doc_count"] for b in s.json["aggregations"]["by_status"]["buckets"]}[500],
                 lambda v: {b["key"]: b["doc_count"] for b in v["aggregations"]["by_status"]["buckets"]}[500]),
        Question("Which of the hits are of web-3?", on_three, unknown,
                 lambda v: [h["_id"] for h in v["hits"]["hits"] if h["_source"]["host"]["name"] == "web-3"]),
    ])  # fmt: skip


def prometheus_range() -> Payload:
    """`/api/v1/query_range`: a matrix, series by series pairs of a time and a number in quotes."""
    rng = random.Random(27)
    series = [
        {"metric": {"__name__": "http_requests_total", "instance": f"10.0.0.{n}:9100", "job": rng.choice(["api", "web"]), "code": rng.choice(["200", "500"])},
         "values": [[1_770_000_000 + step * 60, f"{rng.uniform(0, 90):.4f}"] for step in range(240)]}
        for n in range(40)
    ]  # fmt: skip
    value = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    jobs = Counter(s["metric"]["job"] for s in series)

    def highest(v: Any) -> str:
        return str(
            max(v["data"]["result"], key=lambda s: max(float(x) for _, x in s["values"]))["metric"][
                "instance"
            ]
        )

    return Payload("Prometheus range", compact(value), True, [
        Question("How many series are there?", 40, lambda s: told(s)["data"]["result"]["total_rows"], lambda v: len(v["data"]["result"])),
        Question("How many are of the job api?", jobs["api"], lambda s: told(s)["data"]["result"]["digest"]["counts"]["metric.job"]["api"],
                 lambda v: sum(s["metric"]["job"] == "api" for s in v["data"]["result"])),
        Question("Which instance had the highest value?", highest(value), unknown, highest),
    ])  # fmt: skip


def services() -> list[Payload]:
    return [
        slack_history(), stripe_charges(), terraform_plan(), sentry_event(), graphql_introspection(),
        elasticsearch_hits(), prometheus_range(),
    ]  # fmt: skip
