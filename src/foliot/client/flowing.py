"""What an app can be asked about workflows. Every question to the store has an a-prefixed twin for async code."""

from __future__ import annotations

from datetime import timedelta

from foliot import workflow_commands
from foliot.client.portal import Portal
from foliot.client.workflow import Flow
from foliot.client.workflow_handle import WorkflowHandle
from foliot.model.workflow import Policy, Workflow
from foliot.registry import Registry
from foliot.workflow_commands import check_workflow_id


class Flowing:
    """The part of an app that is about workflows."""

    _portal: Portal

    @property
    def registry(self) -> Registry:
        raise NotImplementedError

    @property
    def portal(self) -> Portal:
        return self._portal

    def workflow(
        self,
        name: str,
        *,
        policy: Policy = "fail_fast",
        deadline: float | timedelta | None = None,
        key: str | None = None,
        namespace: str = "default",
    ) -> Flow:
        """A graph of jobs: `with app.workflow("etl") as flow:`, submitted at the end of the block. `policy`: whether a
        failure ends the rest, or not ("continue"). `deadline`: seconds for the whole. `key`: submitted again with the
        same graph, it is the same run."""
        return Flow(
            name, owner=self, policy=policy, deadline=deadline, key=key, namespace=namespace
        )

    def get_workflow(self, id: str) -> WorkflowHandle:
        """The handle of a workflow that was submitted earlier or elsewhere. Raises UnknownWorkflow."""
        handle = WorkflowHandle(check_workflow_id(id), owner=self)
        handle.get()
        return handle

    async def aget_workflow(self, id: str) -> WorkflowHandle:
        handle = WorkflowHandle(check_workflow_id(id), owner=self)
        await handle.aget()
        return handle

    def workflows(
        self, *, name: str | None = None, state: str | None = None, limit: int = 100
    ) -> list[Workflow]:
        """The newest of this name and in this state: running, succeeded, failed, cancelled; or paused, of those that
        run."""
        return self._portal.call(self._workflows(name, state, limit))

    async def aworkflows(
        self, *, name: str | None = None, state: str | None = None, limit: int = 100
    ) -> list[Workflow]:
        return await self._portal.acall(self._workflows(name, state, limit))

    async def _workflows(self, name: str | None, state: str | None, limit: int) -> list[Workflow]:
        store = await self._portal.store()
        return await workflow_commands.list_workflows(store, name=name, state=state, limit=limit)
