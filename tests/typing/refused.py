"""What a type checker must refuse: each line with what it must say after `# error:`."""

from __future__ import annotations

from datetime import datetime

from foliot import Foliot, Jobs

app = Foliot("sqlite://:memory:")
jobs = Jobs()


@app.job
def add(a: int, b: int = 1) -> int:
    return a + b


@jobs.job(queue="mail")
async def send(to: str, *, subject: str = "") -> str:
    return to


# fmt: off

# Arguments
add.submit("1")  # error: Argument 1 to "submit" of "JobFunction" has incompatible type "str"; expected "int"
add.submit()  # error: Missing positional argument "a" in call to "submit" of "JobFunction"
add.submit(1, 2, 3)  # error: Too many arguments for "submit" of "JobFunction"
add.submit(1, c=2)  # error: Unexpected keyword argument "c" for "submit" of "JobFunction"
add.prepare(a="1")  # error: Argument "a" to "prepare" of "JobFunction" has incompatible type "str"; expected "int"
add("1")  # error: Argument 1 to "__call__" of "JobFunction" has incompatible type "str"; expected "int"
send.submit("a", "b")  # error: Too many positional arguments for "submit" of "JobFunction"
send.submit(to=5)  # error: Argument "to" to "submit" of "JobFunction" has incompatible type "int"; expected "str"
add.options(delay=1).submit("1")  # error: Argument 1 to "submit" of "JobFunction" has incompatible type "str"

# Results
text: str = add.submit(1).result()  # error: Incompatible types in assignment (expression has type "int"
number: int = send.submit("a").result()  # error: Incompatible types in assignment (expression has type "str"
sent: str = send("a")  # error: Incompatible types in assignment (expression has type "Coroutine[Any, Any, str]"
app.submit_many([add(1)])  # error: List item 0 has incompatible type "int"; expected "Prepared"
app.submit_many([add.submit(1)])  # error: List item 0 has incompatible type "Handle[int]"; expected "Prepared"

# Options
add.options(delay="60")  # error: Argument "delay" to "options" of "JobFunction" has incompatible type "str"
add.options(run_at=60)  # error: Argument "run_at" to "options" of "JobFunction" has incompatible type "int"
add.options(priority="high")  # error: Argument "priority" to "options" of "JobFunction" has incompatible type "str"
add.options(queue=5)  # error: Argument "queue" to "options" of "JobFunction" has incompatible type "int"
add.options(key=5)  # error: Argument "key" to "options" of "JobFunction" has incompatible type "int"
add.options(key_mode="always")  # error: Argument "key_mode" to "options" of "JobFunction" has incompatible type
add.options(tags="vip")  # error: Argument "tags" to "options" of "JobFunction" has incompatible type "str"
add.options(timeout="5s")  # error: Argument "timeout" to "options" of "JobFunction" has incompatible type "str"
add.options(max_attempts=1.5)  # error: Argument "max_attempts" to "options" of "JobFunction" has incompatible type
add.options(retry=5)  # error: Argument "retry" to "options" of "JobFunction" has incompatible type "int"
add.options(expires="1h")  # error: Argument "expires" to "options" of "JobFunction" has incompatible type "str"
add.options(ignore_result="no")  # error: Argument "ignore_result" to "options" of "JobFunction" has incompatible type
add.options(colour="red")  # error: Unexpected keyword argument "colour" for "options" of "JobFunction"
app.job(priority="high")  # error: No overload variant of "job" of "Definer" matches argument type
app.job(requires="gpu")  # error: No overload variant of "job" of "Definer" matches argument type
app.job(colour="red")  # error: Unexpected keyword argument "colour" for overloaded function "job" of "Definer"
app.include(5)  # error: Argument 1 to "include" of "Foliot" has incompatible type "int"

# Changes
handle = add.submit(1)
handle.change(priority="high")  # error: Argument "priority" to "change" of "Handle" has incompatible type "str"
handle.change(run_at="tomorrow")  # error: Argument "run_at" to "change" of "Handle" has incompatible type "str"
handle.change(payload=5)  # error: Argument "payload" to "change" of "Handle" has incompatible type "int"
handle.change(key="k")  # error: Unexpected keyword argument "key" for "change" of "Handle"
handle.result(timeout=datetime.now())  # error: Argument "timeout" to "result" of "Handle" has incompatible type


async def in_async_code() -> None:
    later: int = await send.asubmit("a")  # error: Incompatible types in assignment (expression has type "Handle[str]"
    add.asubmit(1)  # error: Value of type "Coroutine[Any, Any, Handle[int]]" must be used
    await add.submit(1)  # error: Incompatible types in "await" (actual type "Handle[int]"
    await send.asubmit(5)  # error: Argument 1 to "asubmit" of "JobFunction" has incompatible type "int"
    handle.achange(priority=1)  # error: Value of type "Coroutine[Any, Any, JobState]" must be used
    await handle.achange(tags="vip")  # error: Argument "tags" to "achange" of "Handle" has incompatible type "str"

# Schedules
app.schedule("n", add, "@daily")  # error: Argument 2 to "schedule" of "Scheduling" has incompatible type "JobFunction
app.schedule("n", add.submit(1), "@daily")  # error: Argument 2 to "schedule" of "Scheduling" has incompatible type "Handle[int]"
app.schedule("n", add.prepare("1"), "@daily")  # error: Argument 1 to "prepare" of "JobFunction" has incompatible type "str"
app.schedule(5, add.prepare(1), "@daily")  # error: Argument 1 to "schedule" of "Scheduling" has incompatible type "int"
app.schedule("n", add.prepare(1), 60)  # error: Argument 3 to "schedule" of "Scheduling" has incompatible type "int"
app.schedule("n", add.prepare(1), "@daily", colour="red")  # error: Unexpected keyword argument "colour" for "schedule"
app.schedule("n", add.prepare(1), "@daily", start="soon")  # error: Argument "start" to "schedule" of "Scheduling" has
app.schedule("n", add.prepare(1), "@daily", dst_gap="maybe")  # error: Argument "dst_gap" to "schedule" of "Scheduling"
app.schedule("n", add.prepare(1), "@daily", tags="vip")  # error: Argument "tags" to "schedule" of "Scheduling" has
app.schedule("n", add.prepare(1), "@daily", overlap="maybe")  # error: Argument "overlap" to "schedule" of "Scheduling"
app.schedule("n", add.prepare(1), "@daily", misfire="some")  # error: Argument "misfire" to "schedule" of "Scheduling"
app.schedule_many([add.prepare(1)])  # error: List item 0 has incompatible type "Prepared"; expected "Draft"
app.get_schedule("n").update(job=add)  # error: Argument "job" to "update" of "ScheduleHandle" has incompatible type
app.get_schedule("n").update(max_runs="5")  # error: Argument "max_runs" to "update" of "ScheduleHandle" has incompatible
app.job(schedule=5)  # error: No overload variant of "job" of "Definer" matches argument type

# Hooks
app.on("job.ded")  # error: Argument 1 to "on" of "Definer" has incompatible type "Literal['job.ded']"
app.on("job.dead", kinds="add")  # error: Argument "kinds" to "on" of "Definer" has incompatible type "str"
app.on("job.dead", kind="x")  # error: Unexpected keyword argument "kind" for "on" of "Definer"
app.on("job.dead")(lambda: None)  # error: Value of type variable "H" of function cannot be "Callable[[], None]"
