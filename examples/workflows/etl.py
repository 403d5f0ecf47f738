"""A small ETL: one source, a step for each of its parts, one report. Run it: `python etl.py`.

It brings its own worker. With FOLIOT_URL on PostgreSQL, `foliot db init` makes the tables first; then start
`foliot worker etl:app` beside it as often as you like.
"""

from __future__ import annotations

import asyncio

from foliot import Flow, Foliot, current_job

app = Foliot()
WEATHER = {"berlin": [3, 7, 5], "lima": [19, 24, 22], "oslo": [-4, 0, -1]}


@app.job
def find_cities(country: str) -> list[str]:
    return sorted(WEATHER)


@app.job
def read_city(city: str) -> dict[str, object]:
    degrees = WEATHER[city]
    return {"city": city, "mean": round(sum(degrees) / len(degrees), 1)}


@app.job
def report(rows: list[dict[str, object]]) -> str:
    return "\n".join(f"{row['city']:<8}{row['mean']:>6} °C" for row in rows)


@app.job
def complain() -> str:
    return "no report: " + ", ".join(parent.name for parent in current_job().parents)


def draw(flow: Flow) -> None:
    cities = flow.add(find_cities.prepare("all"))
    rows = flow.map(read_city, over=cities.result, name="read")
    flow.add(report.prepare(rows=rows.result))
    flow.add(complain.prepare(), after=[rows], rule="any_failed")


async def main() -> None:
    async with app, app.worker():
        async with app.workflow("etl") as flow:
            draw(flow)
        result = await flow.aresult(timeout=60)
        print(result["report"])
        print(await flow.agraph("text"))


if __name__ == "__main__":
    asyncio.run(main())
