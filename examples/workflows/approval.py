"""A payment that somebody has to approve. Run it: `python approval.py`, which approves by itself after a moment.
With FOLIOT_URL on PostgreSQL, `foliot db init` makes the tables first.

In real life the signal comes from a web page, or from a person:

    foliot workflows signal ID approval --payload '{"by": "ada"}'
"""

from __future__ import annotations

import asyncio

from foliot import Flow, Foliot, current_job

app = Foliot()


@app.job
async def ask(order: str, amount: int) -> str:
    print(f"please approve {amount} for {order}")
    return order


@app.job
async def pay(order: str, amount: int, approval: dict[str, str]) -> str:
    return f"paid {amount} for {order}, approved by {approval['by']}"


@app.job
async def give_up(order: str) -> str:
    return f"{order}: nobody approved ({current_job().parents[0].state})"


def draw(flow: Flow) -> None:
    asked = flow.add(ask.prepare("order-42", 900))
    approval = flow.wait_for("approval", timeout=3600, after=[asked])
    flow.add(pay.prepare("order-42", 900, approval=approval.result))
    flow.add(give_up.prepare("order-42"), after=[approval], rule="any_failed")


async def main() -> None:
    async with app, app.worker():
        async with app.workflow("payment") as flow:
            draw(flow)
        await asyncio.sleep(0.5)
        await flow.asignal("approval", {"by": "ada"})
        print((await flow.aresult(timeout=60))["pay"])


if __name__ == "__main__":
    asyncio.run(main())
