"""How a service with jobs is tested: no worker runs, no time passes, and nothing is stored."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from foliot.testing import Harness
from shop.api import api


@pytest.fixture
def client(foliot: Harness) -> Iterator[TestClient]:
    with TestClient(api) as client:
        yield client


def test_an_order_is_answered_with_a_receipt(client: TestClient, foliot: Harness) -> None:
    placed = client.post("/orders", json={"customer": "ada", "amount": 42})
    assert placed.status_code == 202
    foliot.assert_submitted("send_receipt", customer="ada", amount=42, queue="mail", count=1)
    job = placed.json()["receipt"]
    assert client.get(f"/jobs/{job}").json()["state"] == "ready"
    assert client.get(f"/jobs/{job}/result").status_code == 504

    foliot.run_until_idle()
    assert client.get(f"/jobs/{job}").json()["state"] == "succeeded"
    result = client.get(f"/jobs/{job}/result").json()["result"]
    assert result == "receipt of 42 sent to ada@example.org"


def test_after_three_days_a_review_is_asked_for(client: TestClient, foliot: Harness) -> None:
    client.post("/orders", json={"customer": "ada", "amount": 42})
    foliot.advance("2 days")
    assert foliot.jobs("ask_for_review", state="scheduled")
    foliot.advance("1 day")
    assert foliot.jobs("ask_for_review", state="succeeded")
    foliot.assert_submitted("send_receipt", customer="ada", amount=0)


def test_a_refused_order_submits_nothing(client: TestClient, foliot: Harness) -> None:
    assert client.post("/orders", json={"customer": "", "amount": 42}).status_code == 422
    foliot.assert_not_submitted("send_receipt")


def test_a_job_that_is_not_there(client: TestClient) -> None:
    assert client.get("/jobs/nonsense").status_code == 404
