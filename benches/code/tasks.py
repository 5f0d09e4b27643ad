"""The tasks of the bench.

A task has calls, whose results are `a` and `b`, or the list `every`, and a Python expression over
them. `python` is evaluated on the raw payloads: its value is the known answer. FastMCP evaluates
it, too. `code` is the program for `context_guard_run`. `reads` are the queries of the trace `jq`,
one for each call, or a function of the outputs before. `join` computes the answer from their
outputs; without it the first output is the answer. `fields` are the fields of each call that the
trace `pages` reads; None reads everything.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Task:
    name: str
    kind: str
    calls: list
    python: str
    code: str
    reads: list
    join: Callable | None = None
    fields: list = field(default_factory=list)
    # True if the task stores the records that `python` returns with `notes.put_record`.
    writes: bool = False
    setup: str = ""

    def known(self, values) -> Any:
        scope = {"every": values, **dict(zip("ab", values, strict=False))}
        exec(self.setup, scope)  # noqa: S102  # The source is that of this file.
        return eval(self.python, scope)  # noqa: S307


def pages(server, tool, count):
    return [(server, tool, {"page": page}) for page in range(1, count + 1)]


def regions(tool):
    return [(f"region{number}", tool, {}) for number in range(10)]


def rows(items):
    return [item for page in items for item in page]


FOOTBALL = [("football", "list_matches", {})]
CRM, BILLING = ("crm", "list_customers", {}), ("billing", "list_invoices", {})
PEOPLE, PLANETS = ("people", "list_people", {}), ("planets", "list_planets", {})
SWARM = [("swarm", "list_tasks", {}), ("swarm", "list_services", {})]
EMOJI = [("french", "list_emoji", {}), ("korean", "list_emoji", {})]

FILTER = [
    Task(
        "matches with eight goals",
        "filter",
        FOOTBALL,
        "[[m['date'], m['home_team'], m['away_team']] for m in a if m['home_score'] + "
        "m['away_score'] >= 8]",
        "return (await tools.football.list_matches())\n"
        "  .filter((m) => m.home_score + m.away_score >= 8)\n"
        "  .map((m) => [m.date, m.home_team, m.away_team]);",
        [
            {
                "jq": "[.[] | select(.home_score + .away_score >= 8) | [.date, .home_team, "
                ".away_team]]"
            }
        ],
        fields=["date,home_team,away_team,home_score,away_score"],
    ),
    Task(
        "customers of Brazil with a company",
        "filter",
        [CRM],
        "[c['Company'] for c in a if c['Country'] == 'Brazil' and c['Company']]",
        "return (await tools.crm.list_customers())\n"
        "  .filter((c) => c.Country === 'Brazil' && c.Company).map((c) => c.Company);",
        [{"jq": '[.[] | select(.Country == "Brazil" and (.Company // "") != "") | .Company]'}],
        fields=["Company,Country"],
    ),
    Task(
        "packages with a BSD license",
        "filter",
        [("registry", "read_lock", {})],
        "sorted([k for k, p in a['packages'].items() if (p.get('license') or "
        "'').startswith('BSD')])",
        "const { packages } = await tools.registry.read_lock();\n"
        "return Object.keys(packages).filter((k) => "
        "packages[k].license?.startsWith('BSD')).sort();",
        [
            {
                "jq": '[.packages | to_entries[] | select((.value.license // "") | '
                'startswith("BSD"))'
                " | .key] | sort"
            }
        ],
        fields=[None],
    ),
    Task(
        "log lines about the partition test-3",
        "filter",
        [("logs", "state_changes", {})],
        "[line[:25] for line in a.splitlines() if 'partition test-3 ' in line]",
        "return (await tools.logs.state_changes()).split('\\n')\n"
        "  .filter((line) => line.includes('partition test-3 ')).map((line) => line.slice(0, 25));",
        [{"grep": "partition test-3 "}],
        join=lambda outputs: [
            line[line.index("[2016") :][:25]
            for line in outputs[0].splitlines()
            if "partition test-3 " in line and "[2016" in line
        ],
        fields=[None],
    ),
    Task(
        "tools that are destructive",
        "filter",
        [("github", "list_tools", {})],
        "[t['name'] for t in a['tools'] if t.get('annotations', {}).get('destructiveHint')]",
        "return (await tools.github.list_tools()).tools\n"
        "  .filter((t) => t.annotations.destructiveHint).map((t) => t.name);",
        [{"jq": "[.tools[] | select(.annotations.destructiveHint == true) | .name]"}],
        fields=["name,annotations.destructiveHint"],
    ),
    Task(
        "days of snow above four degrees",
        "filter",
        [("weather", "daily", {})],
        "[r.split(',')[0] for r in a.splitlines() if r.endswith(',snow') and "
        "float(r.split(',')[2]) > 4]",
        "return (await tools.weather.daily()).split('\\n').map((line) => line.split(','))\n"
        "  .filter((r) => r[5] === 'snow' && +r[2] > 4).map((r) => r[0]);",
        [{"jq": '[.[] | select(.weather == "snow" and .temp_max > 4) | .date]'}],
        fields=[None],
    ),
    Task(
        "names of the sheet's rows with a score above 740",
        "filter",
        [("excel", "read_range", {})],
        "[r[1] for r in a['values'][1:] if r[3] > 740]",
        "const [, ...rows] = (await tools.excel.read_range()).values;\n"
        "return rows.filter((r) => r[3] > 740).map((r) => r[1]);",
        [{"jq": "[.values[1:][] | select(.[3] > 740) | .[1]]"}],
        fields=[None],
    ),
]

TOP = [
    Task(
        "five countries with the highest incomes",
        "top-k",
        [("geo", "incomes", {})],
        "[r[0] for r in sorted([line.split(',') for line in a.splitlines()[1:]],"
        " key=lambda r: -int(r[-4]))[:5]]",
        "const rows = (await tools.geo.incomes()).trim().split('\\n').slice(1).map((l) => "
        "l.split(','));\n"
        "return rows.sort((a, b) => b.at(-4) - a.at(-4)).slice(0, 5).map((r) => r[0]);",
        [{"jq": "sort_by(-.income)[:5] | map(.country)"}],
        fields=[None],
    ),
    Task(
        "five models with the most expensive output",
        "top-k",
        [("prices", "list_models", {})],
        "[k for k, v in sorted(a.items(), key=lambda e: (-(e[1].get('output_cost_per_token') or "
        "0), e[0]))[:5]]",
        "const models = Object.entries(await tools.prices.list_models())\n"
        "  .map(([name, m]) => ({ name, cost: m.output_cost_per_token ?? 0 }));\n"
        "models.sort((a, b) => b.cost - a.cost || (a.name < b.name ? -1 : 1));\n"
        "return models.slice(0, 5).map((m) => m.name);",
        [
            {
                "jq": "to_entries | sort_by([-(.value.output_cost_per_token // 0), .key])[:5] | "
                "map(.key)"
            }
        ],
        fields=[None],
    ),
    Task(
        "three heaviest penguins of each species",
        "top-k",
        [("zoo", "list_penguins", {})],
        "[[s, sorted([p['Body Mass (g)'] or 0 for p in a if p['Species'] == s])[::-1][:3]]"
        " for s in ['Adelie', 'Chinstrap', 'Gentoo']]",
        "const groups = Object.groupBy(await tools.zoo.list_penguins(), (p) => p.Species);\n"
        "return Object.keys(groups).sort().map((s) =>\n"
        "  [s, groups[s].map((p) => p['Body Mass (g)'] ?? 0).sort((a, b) => b - a).slice(0, 3)]);",
        [
            {
                "jq": "group_by(.Species) | map([.[0].Species,"
                ' (map(.["Body Mass (g)"] // 0) | sort | reverse | .[:3])])'
            }
        ],
        fields=["Species,Body Mass (g)"],
    ),
    Task(
        "three planets with the most inhabitants",
        "top-k",
        [PLANETS],
        "[p['fields']['name'] for p in sorted([p for p in a if "
        "p['fields']['population'].isdigit()],"
        " key=lambda p: -int(p['fields']['population']))[:3]]",
        "return (await tools.planets.list_planets()).map((p) => p.fields)\n"
        "  .filter((p) => p.population !== 'unknown')\n"
        "  .sort((a, b) => b.population - a.population).slice(0, 3).map((p) => p.name);",
        [
            {
                "jq": '[.[].fields | select(.population != "unknown")]'
                " | sort_by(-(.population | tonumber))[:3] | map(.name)"
            }
        ],
        fields=["fields.name,fields.population"],
    ),
    Task(
        "five largest files",
        "top-k",
        [("files", "list_sizes", {})],
        "[r[1] for r in sorted([line.split() for line in a['content'].splitlines()"
        " if line.endswith(' KB') and line.startswith('[FILE]')], key=lambda r: -float(r[2]))[:5]]",
        "const { content } = await tools.files.list_sizes();\n"
        "const rows = content.split('\\n').map((l) => l.split(/\\s+/))\n"
        "  .filter((r) => r[0] === '[FILE]' && r[3] === 'KB');\n"
        "return rows.sort((a, b) => b[2] - a[2]).slice(0, 5).map((r) => r[1]);",
        [
            {
                "jq": '[.[] | select(startswith("[FILE]") and endswith(" KB")) | [splits(" +")]]'
                " | sort_by(-(.[2] | tonumber))[:5] | map(.[1])"
            }
        ],
        fields=[None],
    ),
]

JOIN = [
    Task(
        "customers without an invoice",
        "join",
        [CRM, BILLING],
        "sorted([c['CustomerId'] for c in a if c['CustomerId'] not in {i['CustomerId'] for i in "
        "b}])",
        "const [customers, invoices] = await Promise.all([tools.crm.list_customers(),\n"
        "  tools.billing.list_invoices()]);\n"
        "const billed = new Set(invoices.map((i) => i.CustomerId));\n"
        "return customers.map((c) => c.CustomerId).filter((id) => !billed.has(id));",
        [{"jq": "map(.CustomerId)"}, {"jq": "map(.CustomerId) | unique"}],
        join=lambda outputs: sorted(set(outputs[0]) - set(outputs[1])),
        fields=["CustomerId", "CustomerId"],
    ),
    Task(
        "three customers with the largest totals",
        "join",
        [CRM, BILLING],
        "[c['LastName'] for c in sorted(a, key=lambda c: (-round(sum([i['Total'] for i in b"
        " if i['CustomerId'] == c['CustomerId']]), 2), c['CustomerId']))[:3]]",
        "const customers = await tools.crm.list_customers(), totals = {};\n"
        "for (const i of await tools.billing.list_invoices())\n"
        "  totals[i.CustomerId] = (totals[i.CustomerId] ?? 0) + Math.round(i.Total * 100);\n"
        "const total = (c) => totals[c.CustomerId] ?? 0;\n"
        "return customers.sort((a, b) => total(b) - total(a) || a.CustomerId - b.CustomerId)\n"
        "  .slice(0, 3).map((c) => c.LastName);",
        [
            {"jq": "map([.CustomerId, .LastName])"},
            {
                "jq": "group_by(.CustomerId) | map([.[0].CustomerId, (map(.Total * 100 | round) "
                "| add)])"
                " | sort_by([-.[1], .[0]])[:3]"
            },
        ],
        join=lambda outputs: [dict(map(tuple, outputs[0]))[row[0]] for row in outputs[1]],
        fields=["CustomerId,LastName", "CustomerId,Total"],
    ),
    Task(
        "totals by sales representative",
        "join",
        [CRM, BILLING],
        "[[r, round(sum([i['Total'] for i in b if i['CustomerId'] in"
        " {c['CustomerId'] for c in a if c['SupportRepId'] == r}]) * 100)]"
        " for r in sorted({c['SupportRepId'] for c in a})]",
        "const customers = await tools.crm.list_customers(), totals = {};\n"
        "const reps = new Map(customers.map((c) => [c.CustomerId, c.SupportRepId]));\n"
        "for (const r of reps.values()) totals[r] = 0;\n"
        "for (const i of await tools.billing.list_invoices())\n"
        "  totals[reps.get(i.CustomerId)] += Math.round(i.Total * 100);\n"
        "return Object.entries(totals).map(([rep, cents]) => [+rep, cents]);",
        [
            {"jq": "map([.CustomerId, .SupportRepId])"},
            {
                "jq": "group_by(.CustomerId) | map([.[0].CustomerId, (map(.Total * 100 | round) "
                "| add)])"
            },
        ],
        join=lambda outputs: [
            [rep, sum(cents for customer, cents in outputs[1] if [customer, rep] in outputs[0])]
            for rep in sorted({row[1] for row in outputs[0]})
        ],
        fields=["CustomerId,SupportRepId", "CustomerId,Total"],
    ),
    Task(
        "people of arid planets",
        "join",
        [PEOPLE, PLANETS],
        "sorted([p['fields']['name'] for p in a if p['fields']['homeworld'] in"
        " {q['pk'] for q in b if q['fields']['climate'] == 'arid'}])",
        "const arid = (await tools.planets.list_planets()).filter((p) => p.fields.climate === "
        "'arid');\n"
        "const ids = new Set(arid.map((p) => p.pk));\n"
        "return (await tools.people.list_people()).filter((p) => ids.has(p.fields.homeworld))\n"
        "  .map((p) => p.fields.name).sort();",
        [
            {"jq": "map([.fields.name, .fields.homeworld])"},
            {"jq": '[.[] | select(.fields.climate == "arid") | .pk]'},
        ],
        join=lambda outputs: sorted(name for name, home in outputs[0] if home in outputs[1]),
        fields=["fields.name,fields.homeworld", "pk,fields.climate"],
    ),
    Task(
        "services with tasks that do not run",
        "join",
        SWARM,
        "sorted({s['Spec']['Name'] for s in b for t in a"
        " if t['ServiceID'] == s['ID'] and t['Status']['State'] != 'running'})",
        "const failed = (await tools.swarm.list_tasks()).filter((t) => t.Status.State !== "
        "'running');\n"
        "const ids = new Set(failed.map((t) => t.ServiceID));\n"
        "return (await tools.swarm.list_services()).filter((s) => ids.has(s.ID))\n"
        "  .map((s) => s.Spec.Name).sort();",
        [
            {"jq": '[.[] | select(.Status.State != "running") | .ServiceID] | unique'},
            {"jq": "map([.ID, .Spec.Name])"},
        ],
        join=lambda outputs: sorted(name for key, name in outputs[1] if key in outputs[0]),
        fields=["ServiceID,Status.State", "ID,Spec.Name"],
    ),
    Task(
        "Korean labels of the five longest French ones",
        "join",
        EMOJI,
        "[[e['label'] for e in b if e['hexcode'] == f['hexcode']][0]"
        " for f in sorted(a, key=lambda f: (-len(f['label']), f['hexcode']))[:5]]",
        "const [french, korean] = await Promise.all([tools.french.list_emoji(), "
        "tools.korean.list_emoji()]);\n"
        "const labels = new Map(korean.map((e) => [e.hexcode, e.label]));\n"
        "french.sort((a, b) => b.label.length - a.label.length || (a.hexcode < b.hexcode ? -1 : "
        "1));\n"
        "return french.slice(0, 5).map((e) => labels.get(e.hexcode));",
        [
            {"jq": "sort_by([-(.label | length), .hexcode])[:5] | map(.hexcode)"},
            lambda outputs: {
                "jq": f"map(select(IN(.hexcode; {json.dumps(outputs[0])[1:-1]})) | {{(.hexcode): "
                f".label}}) | add"
            },
        ],
        join=lambda outputs: [outputs[1][code] for code in outputs[0]],
        fields=["hexcode,label", "hexcode,label"],
    ),
]

PAGES = [
    Task(
        "matches by division",
        "counts over pages",
        pages("football", "page_matches", 15),
        "sorted([[d, len([m for m in rows if m['division'] == d])] for d in {m['division'] for m "
        "in rows}])",
        "const counts = {};\n"
        "for (let page = 1, pages = 1; page <= pages; page++) {\n"
        "  const answer = await tools.football.page_matches({ page });\n"
        "  pages = answer.pages;\n"
        "  for (const m of answer.items) counts[m.division] = (counts[m.division] ?? 0) + 1;\n"
        "}\n"
        "return Object.entries(counts).sort();",
        [{"jq": ".items | group_by(.division) | map([.[0].division, length])"}] * 15,
        join=lambda outputs: sorted(
            [d, sum(n for o in outputs for e, n in o if e == d)]
            for d in {r[0] for o in outputs for r in o}
        ),
        fields=["division"] * 15,
        setup="rows = [m for page in every for m in page['items']]",
    ),
    Task(
        "draws",
        "counts over pages",
        pages("football", "page_matches", 15),
        "len([m for m in rows if m['home_score'] == m['away_score']])",
        "const pages = [...Array(15).keys()].map((n) => tools.football.page_matches({ page: n + "
        "1 }));\n"
        "return (await Promise.all(pages)).flatMap((p) => p.items)\n"
        "  .filter((m) => m.home_score === m.away_score).length;",
        [{"jq": "[.items[] | select(.home_score == .away_score)] | length"}] * 15,
        join=sum,
        fields=["home_score,away_score"] * 15,
        setup="rows = [m for page in every for m in page['items']]",
    ),
    Task(
        "countries with a life expectancy below 40",
        "counts over pages",
        pages("geo", "page_years", 13),
        "len({r['country'] for r in rows if (r.get('life_expect') or 99) < 40})",
        "const names = new Set();\n"
        "for (let page = 1, pages = 1; page <= pages; page++) {\n"
        "  const answer = await tools.geo.page_years({ page });\n"
        "  pages = answer.pages;\n"
        "  for (const r of answer.items) if (r.life_expect < 40) names.add(r.country);\n"
        "}\n"
        "return names.size;",
        [{"jq": "[.items[] | select((.life_expect // 99) < 40) | .country] | unique"}] * 13,
        join=lambda outputs: len(set(rows(outputs))),
        fields=["country,life_expect"] * 13,
        setup="rows = [r for page in every for r in page['items']]",
    ),
    Task(
        "invoices by country",
        "counts over pages",
        pages("billing", "page_invoices", 5),
        "sorted([[c, len([i for i in rows if i['BillingCountry'] == c])]"
        " for c in {i['BillingCountry'] for i in rows}])",
        "const counts = {};\n"
        "for (let page = 1; page <= 5; page++)\n"
        "  for (const i of (await tools.billing.page_invoices({ page })).items)\n"
        "    counts[i.BillingCountry] = (counts[i.BillingCountry] ?? 0) + 1;\n"
        "return Object.entries(counts).sort();",
        [{"jq": ".items | group_by(.BillingCountry) | map([.[0].BillingCountry, length])"}] * 5,
        join=lambda outputs: sorted(
            [d, sum(n for o in outputs for e, n in o if e == d)]
            for d in {r[0] for o in outputs for r in o}
        ),
        fields=["BillingCountry"] * 5,
        setup="rows = [i for page in every for i in page['items']]",
    ),
]

LOOP = [
    Task(
        "first match with ten goals",
        "paging loop",
        pages("football", "page_matches", 10),
        "[[m['date'], m['home_team']] for m in rows if m['home_score'] + m['away_score'] >= 10][0]",
        "for (let page = 1; ; page++) {\n"
        "  const { items } = await tools.football.page_matches({ page });\n"
        "  const m = items.find((m) => m.home_score + m.away_score >= 10);\n"
        "  if (m) return [m.date, m.home_team];\n"
        "}",
        [{"jq": "[.items[] | select(.home_score + .away_score >= 10) | [.date, .home_team]]"}] * 10,
        join=lambda outputs: rows(outputs)[0],
        fields=["date,home_team,home_score,away_score"] * 10,
        setup="rows = [m for page in every for m in page['items']]",
    ),
    Task(
        "match with the hundredth home win",
        "paging loop",
        pages("football", "page_matches", 3),
        "[[m['date'], m['home_team']] for m in rows if m['home_score'] > m['away_score']][99]",
        "let wins = 0;\n"
        "for (let page = 1; ; page++)\n"
        "  for (const m of (await tools.football.page_matches({ page })).items)\n"
        "    if (m.home_score > m.away_score && ++wins === 100) return [m.date, m.home_team];",
        [{"jq": "[.items[] | select(.home_score > .away_score) | [.date, .home_team]]"}] * 3,
        join=lambda outputs: rows(outputs)[99],
        fields=["date,home_team,home_score,away_score"] * 3,
        setup="rows = [m for page in every for m in page['items']]",
    ),
    Task(
        "first five customers of the USA",
        "paging loop",
        pages("crm", "page_customers", 2),
        "[c['LastName'] for c in rows if c['Country'] == 'USA'][:5]",
        "const names = [];\n"
        "for (let page = 1; names.length < 5; page++)\n"
        "  for (const c of (await tools.crm.page_customers({ page })).items)\n"
        "    if (c.Country === 'USA') names.push(c.LastName);\n"
        "return names.slice(0, 5);",
        [{"jq": '[.items[] | select(.Country == "USA") | .LastName]'}] * 2,
        join=lambda outputs: rows(outputs)[:5],
        fields=["LastName,Country"] * 2,
        setup="rows = [c for page in every for c in page['items']]",
    ),
]

CHECK = [
    Task(
        "invoices to another city than the customer's",
        "cross-check",
        [CRM, BILLING],
        "[i['InvoiceId'] for i in b for c in a"
        " if c['CustomerId'] == i['CustomerId'] and c['City'] != i['BillingCity']]",
        "const cities = new Map((await tools.crm.list_customers()).map((c) => [c.CustomerId, "
        "c.City]));\n"
        "return (await tools.billing.list_invoices())\n"
        "  .filter((i) => cities.get(i.CustomerId) !== i.BillingCity).map((i) => i.InvoiceId);",
        [
            {"jq": "map({(.CustomerId | tostring): .City}) | add"},
            {"jq": "map([.InvoiceId, .CustomerId, .BillingCity])"},
        ],
        join=lambda outputs: [i for i, c, city in outputs[1] if outputs[0][str(c)] != city],
        fields=["CustomerId,City", "InvoiceId,CustomerId,BillingCity"],
    ),
    Task(
        "species whose counts differ",
        "cross-check",
        [("zoo", "list_penguins", {}), ("station", "list_penguins", {})],
        "[[s, len([p for p in a if p['Species'] == s]), len([p for p in b if p['Species'] == s])]"
        " for s in sorted({p['Species'] for p in a})"
        " if len([p for p in a if p['Species'] == s]) != len([p for p in b if p['Species'] == s])]",
        "const count = (rows, s) => rows.filter((p) => p.Species === s).length;\n"
        "const [a, b] = [await tools.zoo.list_penguins(), await tools.station.list_penguins()];\n"
        "return [...new Set(a.map((p) => p.Species))].map((s) => [s, count(a, s), count(b, s)])\n"
        "  .filter(([, x, y]) => x !== y);",
        [{"aggregate": "count by Species"}] * 2,
        join=lambda outputs: [
            [s, counts(outputs[0])[s], counts(outputs[1])[s]]
            for s in sorted(counts(outputs[0]))
            if counts(outputs[0])[s] != counts(outputs[1])[s]
        ],
        fields=["Species", "Species"],
    ),
    Task(
        "goals in the list and on its pages",
        "cross-check",
        FOOTBALL + pages("football", "page_matches", 15),
        "[sum([m['home_score'] + m['away_score'] for m in a]),"
        " sum([m['home_score'] + m['away_score'] for page in every[1:] for m in page['items']])]",
        "const goals = (rows) => rows.reduce((sum, m) => sum + m.home_score + m.away_score, 0);\n"
        "const numbers = [...Array(15).keys()];\n"
        "const pages = await Promise.all(numbers.map((n) => tools.football.page_matches({ page: "
        "n + 1 })));\n"
        "return [goals(await tools.football.list_matches()), goals(pages.flatMap((p) => "
        "p.items))];",
        [{"jq": "map(.home_score + .away_score) | add"}]
        + [{"jq": "[.items[] | .home_score + .away_score] | add"}] * 15,
        join=lambda outputs: [outputs[0], sum(outputs[1:])],
        fields=["home_score,away_score"] * 16,
    ),
    Task(
        "emoji with skins in one language alone",
        "cross-check",
        EMOJI,
        "len({e['hexcode'] for e in a if e.get('skins')} ^ {e['hexcode'] for e in b if "
        "e.get('skins')})",
        "const codes = (rows) => new Set(rows.filter((e) => e.skins?.length).map((e) => "
        "e.hexcode));\n"
        "const a = codes(await tools.french.list_emoji()), b = codes(await "
        "tools.korean.list_emoji());\n"
        "return a.symmetricDifference(b).size;",
        [{"jq": "[.[] | select((.skins // []) != []) | .hexcode]"}] * 2,
        join=lambda outputs: len(set(outputs[0]) ^ set(outputs[1])),
        fields=["hexcode,skins.order", "hexcode,skins.order"],
    ),
    Task(
        "users with todos, but fewer than half completed",
        "cross-check",
        [("todo", "list_todos", {})],
        "[u for u in sorted({t['userId'] for t in a})"
        " if 2 * len([t for t in a if t['userId'] == u and t['completed']])"
        " < len([t for t in a if t['userId'] == u])]",
        "const users = {};\n"
        "for (const t of await tools.todo.list_todos())\n"
        "  users[t.userId] = (users[t.userId] ?? 0) + (t.completed ? 1 : -1);\n"
        "return Object.keys(users).filter((u) => users[u] < 0).map(Number);",
        [
            {
                "jq": "group_by(.userId) | map(select((map(select(.completed)) | length) * 2 < "
                "length)"
                " | .[0].userId)"
            }
        ],
        fields=["userId,completed"],
    ),
]

FAN = [
    Task(
        "goals of each region",
        "fan-out",
        regions("list_matches"),
        "[sum([m['home_score'] + m['away_score'] for m in r]) for r in every]",
        "const goals = (rows) => rows.reduce((sum, m) => sum + m.home_score + m.away_score, 0);\n"
        "const regions = [...Array(10).keys()].map((n) => tools[`region${n}`].list_matches());\n"
        "return (await Promise.all(regions)).map(goals);",
        [{"jq": "map(.home_score + .away_score) | add"}] * 10,
        join=list,
        fields=["home_score,away_score"] * 10,
    ),
    Task(
        "region with the most home wins",
        "fan-out",
        regions("list_matches"),
        "max([[len([m for m in every[n] if m['home_score'] > m['away_score']]), -n] for n in "
        "range(10)])",
        "const regions = [...Array(10).keys()].map((n) => tools[`region${n}`].list_matches());\n"
        "const wins = (await Promise.all(regions))\n"
        "  .map((rows) => rows.filter((m) => m.home_score > m.away_score).length);\n"
        "const most = Math.max(...wins);\n"
        "return [most, -wins.indexOf(most)];",
        [{"jq": "[.[] | select(.home_score > .away_score)] | length"}] * 10,
        join=lambda outputs: max([n, -at] for at, n in enumerate(outputs)),
        fields=["home_score,away_score"] * 10,
    ),
    Task(
        "teams that play in several regions",
        "fan-out",
        regions("list_matches"),
        "len([t for t in {m['home_team'] for r in every for m in r}"
        " if len([r for r in every if t in [m['home_team'] for m in r]]) > 1])",
        "const seen = {};\n"
        "for (let n = 0; n < 10; n++) {\n"
        "  const rows = await tools[`region${n}`].list_matches();\n"
        "  for (const t of new Set(rows.map((m) => m.home_team))) seen[t] = (seen[t] ?? 0) + 1;\n"
        "}\n"
        "return Object.values(seen).filter((n) => n > 1).length;",
        [{"jq": "map(.home_team) | unique"}] * 10,
        join=lambda outputs: len(
            [t for t in set(rows(outputs)) if sum(t in output for output in outputs) > 1]
        ),
        fields=["home_team"] * 10,
    ),
    Task(
        "first match of each region",
        "fan-out, small",
        regions("first_match"),
        "[r[0]['home_team'] for r in every]",
        "const regions = [...Array(10).keys()].map((n) => tools[`region${n}`].first_match());\n"
        "return (await Promise.all(regions)).map((rows) => rows[0].home_team);",
        [None] * 10,
        join=lambda outputs: [output[0]["home_team"] for output in outputs],
        fields=[None] * 10,
    ),
]

MOVE = [
    Task(
        "store the matches with nine goals",
        "moving data",
        FOOTBALL,
        "[m for m in a if m['home_score'] + m['away_score'] >= 9]",
        "const found = (await tools.football.list_matches())\n"
        "  .filter((m) => m.home_score + m.away_score >= 9);\n"
        "for (const record of found) await tools.notes.put_record({ record });\n"
        "return found.length;",
        [{"jq": "[.[] | select(.home_score + .away_score >= 9)]"}],
        fields=["date,division,home_team,away_team,home_score,away_score"],
        writes=True,
    ),
    Task(
        "store the customers of Germany",
        "moving data",
        [CRM],
        "[c for c in a if c['Country'] == 'Germany']",
        "const found = (await tools.crm.list_customers()).filter((c) => c.Country === 'Germany');\n"
        "for (const record of found) await tools.notes.put_record({ record });\n"
        "return found.length;",
        [{"where": "Country=Germany"}],
        fields=[
            "CustomerId,FirstName,LastName,Company,Address,City,State,Country,PostalCode,Phone,"
            "Fax,Email,SupportRepId"
        ],
        writes=True,
    ),
    Task(
        "store the natives of Tatooine",
        "moving data",
        [PEOPLE],
        "[p['fields'] for p in a if p['fields']['homeworld'] == 1]",
        "const found = (await tools.people.list_people()).map((p) => p.fields)\n"
        "  .filter((p) => p.homeworld === 1);\n"
        "await Promise.all(found.map((record) => tools.notes.put_record({ record })));\n"
        "return found.length;",
        [{"jq": "[.[].fields | select(.homeworld == 1)]"}],
        fields=["fields"],
        writes=True,
    ),
]

SMALL = [
    Task(
        "the time",
        "small",
        [("clock", "now", {})],
        "a",
        "return await tools.clock.now();",
        [None],
        fields=[None],
    ),
    Task(
        "rows of a table",
        "small",
        [("table", "query", {})],
        "a",
        "return await tools.table.query();",
        [None],
        fields=[None],
    ),
    Task(
        "author of the last commit",
        "small",
        [("git", "log", {})],
        "a.split('Author: ')[1].splitlines()[0]",
        "return (await tools.git.log()).match(/Author: (.*)/)[1];",
        [None],
        join=lambda outputs: outputs[0].split("Author: ")[1].splitlines()[0],
        fields=[None],
    ),
]


def counts(output):
    """Returns the counts of an answer to `aggregate`."""
    return output.get("count by Species", output)


TASKS = FILTER + TOP + JOIN + PAGES + LOOP + CHECK + FAN + MOVE + SMALL
