"""The servers of the bench: their tools, and the recorded payloads that these return."""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
CAPTURES = HERE.parents[1] / "tests/captures"
MATCHES = "public_data/089-vega-football-1500-mini.json"
SHARDS = 10
SHARD_ROWS = 150


def payload(name, description, file, **more):
    return {"name": name, "description": description, "file": file, **more}


def capture(name, description, file):
    return {"name": name, "description": description, "capture": str(CAPTURES / file)}


def shard(number):
    first = number * SHARD_ROWS
    part = {"list": "", "from": first, "to": first + SHARD_ROWS}
    one = {"list": "", "from": first, "to": first + 1}
    return [
        payload("list_matches", "The matches of this region.", MATCHES, **part),
        payload("first_match", "The first match of this region.", MATCHES, **one),
    ]


SERVERS = {
    "football": [
        payload("list_matches", "All matches.", MATCHES),
        payload("page_matches", "Matches, 100 a page.", MATCHES, list="", pageSize=100),
    ],
    "geo": [
        payload(
            "page_years",
            "Fertility and life expectancy by country and year, 50 a page.",
            "public_data/075-vega-countries-1500-mini.json",
            list="",
            pageSize=50,
        ),
        payload("zip_codes", "Zip codes, as CSV.", "csv/028-vega-zipcodes-csv.txt"),
        payload(
            "incomes",
            "Incomes of countries, as CSV.",
            "csv/012-vega-gapminder-health-income-csv.txt",
        ),
    ],
    "crm": [
        payload("list_customers", "All customers.", "db_rows/027-chinook-Customer-120-mini.json"),
        payload(
            "page_customers",
            "Customers, 10 a page.",
            "db_rows/027-chinook-Customer-120-mini.json",
            list="",
            pageSize=10,
        ),
    ],
    "billing": [
        payload("list_invoices", "All invoices.", "db_rows/032-chinook-Invoice-120-tab.json"),
        payload(
            "page_invoices",
            "Invoices, 25 a page.",
            "db_rows/032-chinook-Invoice-120-tab.json",
            list="",
            pageSize=25,
        ),
    ],
    "zoo": [
        payload("list_penguins", "All penguins.", "public_data/106-vega-penguins-1500-spaced.json"),
    ],
    "station": [
        payload(
            "list_penguins", "Known penguins.", "public_data/105-vega-penguins-250-pretty.json"
        ),
    ],
    "people": [
        payload("list_people", "All people.", "public_data/003-swapi-people-json-pretty.json"),
    ],
    "planets": [
        payload("list_planets", "All planets.", "public_data/005-swapi-planets-json-tab.json"),
    ],
    "logs": [
        payload("state_changes", "The state log.", "app_log/038-kafka-state-change.txt"),
    ],
    "coffee": [
        payload(
            "list_orders",
            "Orders, as JSON lines with index lines between.",
            "web_log/010-elastic-elasticoffee-data-bulk-1500.txt",
        ),
    ],
    "prices": [
        payload("list_models", "Prices of models.", "pkg_meta/046-litellm-prices-200-spaced.json"),
    ],
    "registry": [
        payload("read_lock", "The lock file.", "id_heavy/003-package-lock-400-pretty.json"),
    ],
    "swarm": [
        payload("list_tasks", "All tasks.", "cloud_api/010-promdisc-moby-swarmprom-mini.json"),
        payload(
            "list_services", "All services.", "cloud_api/009-promdisc-moby-swarmprom-mini.json"
        ),
    ],
    "weather": [
        payload("daily", "The weather by day, as CSV.", "csv/019-vega-seattle-weather-csv.txt"),
    ],
    "github": [
        payload(
            "list_tools",
            "Tools of an MCP server.",
            "mcp_tools/066-toolslist-githubmcp-n117-mini.json",
        ),
    ],
    "todo": [
        payload("list_todos", "All todos.", "public_data/041-jsonplaceholder-todos-500-mini.json"),
    ],
    "french": [
        payload("list_emoji", "Emoji in French.", "emoji/017-emojibase-fr-300-pretty4.json"),
    ],
    "korean": [payload("list_emoji", "Emoji in Korean.", "emoji/009-emojibase-ko-300-tab.json")],
    "files": [
        capture("list_sizes", "Sizes of files.", "filesystem-list-directory-sizes.json"),
    ],
    "excel": [capture("read_range", "A range of cells.", "excel-read-range.json")],
    "git": [capture("log", "The last ten commits.", "git-log-10.json")],
    "table": [capture("query", "Five rows.", "sqlite-query-small.json")],
    "clock": [capture("now", "The time in Paris.", "time-now-small-2026.json")],
    "notes": [
        {"name": "put_record", "description": "Stores a record.", "writes": "written.jsonl"},
    ],
    **{f"region{number}": shard(number) for number in range(SHARDS)},
}


def write_specs(payloads, folder):
    """Writes a file for each server whose payloads exist. Returns name and command of each."""
    found = []
    for name, tools in SERVERS.items():
        tools = [{**tool} for tool in tools]
        for tool in tools:
            if "file" in tool:
                tool["file"] = str(pathlib.Path(payloads or ".").resolve() / tool["file"])
            if "writes" in tool:
                tool["writes"] = str(pathlib.Path(folder) / tool["writes"])
        if not all(pathlib.Path(tool["file"]).is_file() for tool in tools if "file" in tool):
            continue
        file = pathlib.Path(folder) / f"{name}.json"
        file.write_text(json.dumps({"name": name, "tools": tools}), encoding="utf-8")
        found.append(
            {"name": name, "command": ["python3", str(HERE / "replay_server.py"), str(file)]}
        )
    return found
