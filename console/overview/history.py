"""The picture of an account's messages on the first page: in, out and backlog over each other (docs/use/metrics.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.metrics.marks import marks
from console.metrics.totals import COMPARED, Step, history
from console.web import lines, zone

WIDTH, HEIGHT = 1000, 240
_DIVISIONS = 4
_LABELS = 5


@dataclass(frozen=True)
class Band:
    """One step, from `x` on, with what its numbers are in words."""

    x: int
    text: str


@dataclass(frozen=True)
class Mark:
    """Something that somebody did, at `x`."""

    x: int
    text: str


@dataclass(frozen=True)
class Picture:
    """Paths on a plane of WIDTH by HEIGHT, what stands at its axes, and the latest numbers."""

    span: str
    compared: str
    steps: list[Step]
    paths: dict[str, str]
    rates: list[float]
    backlogs: list[float]
    times: list[str]
    bands: list[Band]
    band_width: int
    marks: list[Mark]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was sampled in the whole span."""
        return all(step.backlog is None for step in self.steps)

    @property
    def words(self) -> str:
        """What the picture shows, for who does not see it."""
        known = [step for step in self.steps if step.backlog is not None]
        if not known:
            return _("No samples.")
        last, most = known[-1], max(known, key=lambda step: step.backlog or 0)
        return _(
            "%(in_tps)s in, %(out_tps)s out, backlog %(backlog)s; the largest backlog was %(backlog2)s at %(most)s."
        ) % {
            "in_tps": _told_rate(last.in_tps),
            "out_tps": _told_rate(last.out_tps),
            "backlog": f"{last.backlog:,}",
            "backlog2": f"{most.backlog:,}",
            "most": _at(most, self.span),
        }


def picture(actor: Actor, span: str, compared: str = "") -> Picture:
    """The picture of a span (of `totals.SPANS`), with what came in the day or the week before it (of COMPARED)."""
    steps = history(actor.tenant, span)
    before = history(actor.tenant, span, before_ms=COMPARED[compared][1]) if compared else []
    came, went = [step.in_tps for step in steps], [step.out_tps for step in steps]
    waited = [step.backlog for step in steps]
    came_before = [step.in_tps for step in before]
    rate_top = lines.nice_top(_highest([*came, *went, *came_before]))
    backlog_top = max(lines.nice_top(_highest(waited)), 4.0)
    paths = {
        "backlog_area": lines.area(waited, backlog_top, WIDTH, HEIGHT),
        "backlog": lines.line(waited, backlog_top, WIDTH, HEIGHT),
        "before": lines.line(came_before, rate_top, WIDTH, HEIGHT) if before else "",
        "out": lines.line(went, rate_top, WIDTH, HEIGHT),
        "in": lines.line(came, rate_top, WIDTH, HEIGHT),
    }
    across = WIDTH / (len(steps) - 1)
    return Picture(
        span=span,
        compared=compared,
        steps=steps,
        paths=paths,
        rates=_divided(rate_top),
        backlogs=_divided(backlog_top),
        times=[_at(steps[round(n * (len(steps) - 1) / (_LABELS - 1))], span) for n in range(_LABELS)],
        bands=[Band(round((n - 0.5) * across), _told(step, span)) for n, step in enumerate(steps)],
        band_width=round(across) + 1,
        marks=_marks(actor, steps),
    )


def _marks(actor: Actor, steps: Sequence[Step]) -> list[Mark]:
    """What was done in the span that changes the lines, for who may read the audit."""
    begin_ms, end_ms = steps[0].at_ms, 2 * steps[-1].at_ms - steps[-2].at_ms
    return [
        Mark(round((one.at_ms - begin_ms) / (end_ms - begin_ms) * WIDTH), f"{zone.local(one.at_ms):%H:%M} {one.text}")
        for one in marks(actor, begin_ms, end_ms)
    ]


def _highest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value is not None), default=0.0)


def _divided(top: float) -> list[float]:
    """What stands at the axis, from the top down."""
    return [top * (_DIVISIONS - n) / _DIVISIONS for n in range(_DIVISIONS + 1)]


def _at(step: Step, span: str) -> str:
    moment = zone.local(step.at_ms)
    return f"{moment:%a %H:%M}" if span == "7d" else f"{moment:%H:%M}"


def _told(step: Step, span: str) -> str:
    if step.backlog is None:
        return _("%(step)s: no sample") % {"step": _at(step, span)}

    flow = _("%(in_tps)s in, %(out_tps)s out") % {
        "in_tps": _told_rate(step.in_tps),
        "out_tps": _told_rate(step.out_tps),
    }
    text = (
        _("%(step)s: %(flow)s, backlog %(backlog)s, %(died)s died")
        if step.died
        else _("%(step)s: %(flow)s, backlog %(backlog)s")
    )
    return text % {
        "step": _at(step, span),
        "flow": flow,
        "backlog": f"{step.backlog:,}",
        "died": f"{step.died or 0:,}",
    }


def _told_rate(tps: float | None) -> str:
    return _("unknown") if tps is None else f"{tps:,.4g}/s"
