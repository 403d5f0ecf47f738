"""Foliot: durable jobs on SQLite and PostgreSQL.

The public names are imported on first use, so that `foliot --help` does not pay for the drivers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foliot.client.app import Foliot as Foliot
    from foliot.client.handle import Handle as Handle
    from foliot.client.jobs import Jobs as Jobs
    from foliot.client.schedule_handle import ScheduleHandle as ScheduleHandle
    from foliot.client.workflow import Flow as Flow
    from foliot.client.workflow_handle import WorkflowHandle as WorkflowHandle
    from foliot.errors import Cancel as Cancel
    from foliot.errors import FoliotError as FoliotError
    from foliot.errors import InvalidValue as InvalidValue
    from foliot.errors import JobCancelled as JobCancelled
    from foliot.errors import JobFailed as JobFailed
    from foliot.errors import NotChangeable as NotChangeable
    from foliot.errors import NotDead as NotDead
    from foliot.errors import NotRunning as NotRunning
    from foliot.errors import ResultTimeout as ResultTimeout
    from foliot.errors import Retry as Retry
    from foliot.errors import SessionLost as SessionLost
    from foliot.errors import SoftTimeout as SoftTimeout
    from foliot.errors import StoreRefused as StoreRefused
    from foliot.errors import StoreUnavailable as StoreUnavailable
    from foliot.errors import TransactionTooLong as TransactionTooLong
    from foliot.errors import UnknownJob as UnknownJob
    from foliot.errors import UnknownSchedule as UnknownSchedule
    from foliot.errors import UnknownWorkflow as UnknownWorkflow
    from foliot.errors import WorkflowFailed as WorkflowFailed
    from foliot.model.event import Event as Event
    from foliot.model.job import Job as Job
    from foliot.model.job import JobState as JobState
    from foliot.model.job import Priority as Priority
    from foliot.model.retry import Exponential as Exponential
    from foliot.model.retry import Fixed as Fixed
    from foliot.model.schedule import Schedule as Schedule
    from foliot.model.schedule import ScheduleState as ScheduleState
    from foliot.model.workflow import WorkflowState as WorkflowState
    from foliot.schedule_draft import Draft as Draft
    from foliot.worker.context import current_job as current_job

__version__ = "0.1.0"

_HOMES = {
    "Cancel": "foliot.errors",
    "Draft": "foliot.schedule_draft",
    "Event": "foliot.model.event",
    "Exponential": "foliot.model.retry",
    "Fixed": "foliot.model.retry",
    "Flow": "foliot.client.workflow",
    "Foliot": "foliot.client.app",
    "FoliotError": "foliot.errors",
    "Handle": "foliot.client.handle",
    "Job": "foliot.model.job",
    "Jobs": "foliot.client.jobs",
    "JobState": "foliot.model.job",
    "Priority": "foliot.model.job",
    "InvalidValue": "foliot.errors",
    "JobCancelled": "foliot.errors",
    "JobFailed": "foliot.errors",
    "NotDead": "foliot.errors",
    "NotRunning": "foliot.errors",
    "NotChangeable": "foliot.errors",
    "ResultTimeout": "foliot.errors",
    "StoreRefused": "foliot.errors",
    "StoreUnavailable": "foliot.errors",
    "UnknownJob": "foliot.errors",
    "UnknownSchedule": "foliot.errors",
    "UnknownWorkflow": "foliot.errors",
    "WorkflowFailed": "foliot.errors",
    "WorkflowHandle": "foliot.client.workflow_handle",
    "WorkflowState": "foliot.model.workflow",
    "Schedule": "foliot.model.schedule",
    "ScheduleHandle": "foliot.client.schedule_handle",
    "ScheduleState": "foliot.model.schedule",
    "Retry": "foliot.errors",
    "SessionLost": "foliot.errors",
    "SoftTimeout": "foliot.errors",
    "TransactionTooLong": "foliot.errors",
    "current_job": "foliot.worker.context",
}

__all__ = [
    "Cancel",
    "Draft",
    "Event",
    "Exponential",
    "Fixed",
    "Flow",
    "Foliot",
    "FoliotError",
    "Handle",
    "InvalidValue",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobState",
    "Jobs",
    "NotChangeable",
    "NotDead",
    "NotRunning",
    "Priority",
    "ResultTimeout",
    "Retry",
    "Schedule",
    "ScheduleHandle",
    "ScheduleState",
    "SessionLost",
    "SoftTimeout",
    "StoreRefused",
    "StoreUnavailable",
    "TransactionTooLong",
    "UnknownJob",
    "UnknownSchedule",
    "UnknownWorkflow",
    "WorkflowFailed",
    "WorkflowHandle",
    "WorkflowState",
    "current_job",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'foliot' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
