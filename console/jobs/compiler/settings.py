"""`SET 'key' = 'value'`: the vendor's settings that mean something here, and those that mean nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from analytics.pipelines.plan import Settings, Value
from console.jobs.compiler.connectors.kinds import Option, any_text, boolean, duration, long, one_of, text, whole, zone
from console.jobs.compiler.script import Statement
from console.jobs.compiler.values import Values
from console.jobs.compiler.words import TextRefused, near
from console.statements.lexer import Token

_MODE, _INTERVAL, _BATCH = "execution.runtime-mode", "execution.checkpointing.interval", "execution.batch-interval"
_ATTEMPTS = "restart-strategy.fixed-delay.attempts"
#: Setting → the part of Settings that it fills.
_FIELDS = {
    _MODE: "mode",
    _INTERVAL: "checkpoint_interval_ms",
    _BATCH: "batch_interval_ms",
    "parallelism.default": "parallelism",
    "table.exec.resource.default-parallelism": "parallelism",
    "table.local-time-zone": "time_zone",
    _ATTEMPTS: "restart_attempts",
    "restart-strategy.fixed-delay.delay": "restart_delay_ms",
    "restart-strategy.exponential-delay.initial-backoff": "restart_delay_ms",
    "restart-strategy.exponential-delay.max-backoff": "restart_max_delay_ms",
}
_STRATEGIES = ("restart-strategy", "restart-strategy.type")
_EFFECTIVE = (
    Option(_MODE, one_of("streaming", "batch")),
    Option(_INTERVAL, duration("0ms")),
    Option(_BATCH, duration("0ms", "1h")),
    Option("parallelism.default", whole(1, 64)),
    Option("table.exec.resource.default-parallelism", whole(1, 64)),
    Option("table.local-time-zone", zone),
    Option("restart-strategy", one_of("none", "off", "disable", "fixed-delay", "exponential-delay")),
    Option("restart-strategy.type", one_of("none", "off", "disable", "fixed-delay", "exponential-delay")),
    Option(_ATTEMPTS, whole(0)),
    Option("restart-strategy.fixed-delay.delay", duration("0ms")),
    Option("restart-strategy.exponential-delay.initial-backoff", duration("1ms")),
    Option("restart-strategy.exponential-delay.max-backoff", duration("1ms")),
)
_WITHOUT_EFFECT = (
    Option("table.exec.state.ttl", duration("0ms")),
    Option("table.exec.source.idle-timeout", duration("0ms")),
    Option("execution.checkpointing.mode", one_of("EXACTLY_ONCE", "AT_LEAST_ONCE")),
    Option("execution.checkpointing.timeout", duration("1ms")),
    Option("execution.checkpointing.min-pause", duration("0ms")),
    Option("execution.checkpointing.max-concurrent-checkpoints", whole(1)),
    Option("execution.checkpointing.tolerable-failed-checkpoints", whole(0)),
    Option("execution.checkpointing.unaligned", boolean),
    Option("pipeline.name", any_text),
    Option("pipeline.object-reuse", boolean),
    Option("pipeline.operator-chaining", boolean),
    Option("state.backend", text),
    Option("state.backend.type", text),
    Option("table.dml-sync", boolean),
    Option("table.exec.mini-batch.enabled", boolean),
    Option("table.exec.mini-batch.allow-latency", duration("0ms")),
    Option("table.exec.mini-batch.size", long(-1)),
    Option("table.exec.sink.not-null-enforcer", one_of("ERROR", "DROP")),
    Option("table.exec.sink.upsert-materialize", one_of("NONE", "AUTO", "FORCE")),
    Option("table.optimizer.agg-phase-strategy", one_of("AUTO", "ONE_PHASE", "TWO_PHASE")),
    Option("table.optimizer.distinct-agg.split.enabled", boolean),
)
OPTIONS = {option.name: option for option in (*_EFFECTIVE, *_WITHOUT_EFFECT)}
#: Settings of which a user may rely on the effect that they do not have → what is so instead; the others only tune.
_INSTEAD = {
    "table.exec.state.ttl": "what has no watermark keeps its state for ever",
    "table.exec.source.idle-timeout": "a source without rows holds the watermark back",
}
#: Settings without an effect → the end of the sentence that says so.
_IDLE = {one.name: f": {_INSTEAD[one.name]}" if one.name in _INSTEAD else " here" for one in _WITHOUT_EFFECT}
_NEVER = ("none", "off", "disable")


@dataclass(slots=True)
class SettingsText:
    """What SET statements say: the settings, warnings, and what is wrong."""

    settings: Settings
    warnings: list[str]
    refusals: list[TextRefused]


def read(statements: Iterable[Statement], values: Values) -> SettingsText:
    """All SET statements of a text; the last one of a name holds."""
    found: dict[str, Value] = {}
    last: dict[str, Token] = {}
    result = SettingsText(Settings(), [], [])
    for statement in statements:
        try:
            name, value = _read_one(statement, values)
        except TextRefused as refused:
            result.refusals.append(refused)
            continue
        found[name], last[name] = value, statement.tokens[0]
        if name in _IDLE:
            line, column = statement.text.place(statement.tokens[0].start)
            result.warnings.append(f"Line {line}, column {column}: {name} has no effect{_IDLE[name]}.")
    result.settings = _settings(found)
    return result


def _read_one(statement: Statement, values: Values) -> tuple[str, Value]:
    reader = statement.reader()
    reader.expect("set")
    name = reader.quoted("the name of a setting")
    reader.expect("=")
    value = reader.quoted(f"the value of {name.value}")
    reader.end("`;`")
    option = OPTIONS.get(name.value)
    if option is None:
        known = ", ".join(one.name for one in _EFFECTIVE)
        raise reader.refusal(
            name, f"there is no setting {name.value}.{near(name.value, OPTIONS)} Those with an effect are {known}."
        )
    written = values.filled(statement.text, value, secrets_allowed=False)
    try:
        return name.value, option.read(written)
    except ValueError as error:
        raise reader.refusal(value, f"{name.value} cannot be '{written}'; allowed is {error}.") from None


def _settings(found: dict[str, Value]) -> Settings:
    parts = {_FIELDS[name]: value for name, value in found.items() if name in _FIELDS}
    strategy = next((found[name] for name in reversed(_STRATEGIES) if name in found), None)
    if strategy in _NEVER:
        parts["restart_attempts"] = 0
    elif strategy == "fixed-delay":
        parts.setdefault("restart_attempts", 1)
        parts["restart_max_delay_ms"] = parts.get("restart_delay_ms", Settings().restart_delay_ms)
    settings = replace(Settings(), **parts)  # type: ignore[arg-type]
    if settings.checkpoint_interval_ms:
        batch = min(settings.batch_interval_ms, settings.checkpoint_interval_ms)
        settings = replace(settings, batch_interval_ms=batch)
    return settings
