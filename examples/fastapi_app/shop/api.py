"""The service. Its lifespan opens the app and runs a worker next to the endpoints.

Where jobs need machines of their own, leave `app.worker()` out and start `foliot worker shop.jobs:app` there.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from foliot import InvalidValue, JobFailed, ResultTimeout, UnknownJob
from shop.jobs import app, ask_for_review, send_receipt


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with app, app.worker():
        yield


api = FastAPI(lifespan=lifespan)


class Order(BaseModel):
    customer: str = Field(min_length=1, max_length=100)
    amount: int = Field(gt=0)


@api.post("/orders", status_code=202)
async def place_order(order: Order) -> dict[str, str]:
    receipt = await send_receipt.asubmit(order.customer, order.amount)
    await ask_for_review.options(delay=3 * 86400).asubmit(order.customer)
    return {"receipt": receipt.id}


@api.get("/jobs/{id}")
async def show_job(id: str) -> dict[str, Any]:
    try:
        job = await app.get(id).ajob()
    except (UnknownJob, InvalidValue) as error:
        raise HTTPException(404, str(error)) from error
    return {"kind": job.kind, "state": job.state, "attempt": job.attempt}


@api.get("/jobs/{id}/result")
async def wait_for_result(id: str, timeout: float = 5) -> dict[str, Any]:
    try:
        return {"result": await app.get(id).aresult(timeout=timeout)}
    except ResultTimeout as error:
        raise HTTPException(504, str(error)) from error
    except JobFailed as error:
        raise HTTPException(502, str(error)) from error
