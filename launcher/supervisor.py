"""Starts the services as soon as what they need is ready, starts again what dies, stops all in the reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launcher import leftovers, lock
from launcher.config import ROOT, LauncherError
from launcher.guard import Guard
from launcher.output import Output
from launcher.plan import Service
from launcher.process import Child, Reaper

#: Seconds before a dead child is started again: doubled with each death in a row, from the first up to the last.
BACKOFF_FIRST, BACKOFF_LAST = 1.0, 30.0

#: The longest that a service which is started again may take to get ready, s: each time that it was not in time it gets
#: twice as long, for on a busy machine it would never be there if it were killed at the same point each time.
PATIENCE_LAST = 900.0

#: Seconds of life after which a death is no longer in a row with the one before.
SETTLED = 60.0

#: Seconds between two signals that make the second one impatience: make passes a signal on, so one can come twice.
IMPATIENCE = 1.0

#: Seconds from the first signal to the last process gone, however many do not listen.
STOP_LIMIT = 13.0

PR_SET_CHILD_SUBREAPER = 36


class Supervisor:
    """One run: `run()` returns the exit status when everything is stopped again."""

    def __init__(self, services: Sequence[Service], environ: Mapping[str, str], output: Output, guard: Guard) -> None:
        self._services = {service.name: service for service in services}
        self._environ, self._output, self._guard = environ, output, guard
        self._reaper = Reaper()
        self._children: dict[str, Child] = {}
        self._ready = {name: asyncio.Event() for name in self._services}
        self._asked = asyncio.Event()
        self._asked_at = 0.0
        self._hurry = False

    async def run(self, on_ready: Callable[[float], None]) -> int:
        """Start all, call `on_ready` with the seconds it took, wait for a signal, stop all. 1 when a start failed."""
        self._install_signal_handlers()
        begin = time.monotonic()
        asked = asyncio.ensure_future(self._asked.wait())
        all_ready = asyncio.gather(*(event.wait() for event in self._ready.values()))
        keepers = [asyncio.ensure_future(self._keep(service)) for service in self._services.values()]
        pending: set[asyncio.Future[Any]] = {asked, all_ready, *keepers}
        try:
            while not asked.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if all_ready in done:
                    on_ready(time.monotonic() - begin)
            return 0
        except LauncherError as error:
            self._output.say(str(error))
            return 1
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            await self._stop_all()

    def _install_signal_handlers(self) -> None:
        # Orphans of our children become ours instead of init's, so that they can be collected.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._reaper.install()
        self._expect_guard()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)

    def _expect_guard(self) -> None:
        self._reaper.expect(self._guard.pid).add_done_callback(self._on_guard_end)

    def _on_guard_end(self, _: asyncio.Future[int]) -> None:
        """Without a guard nobody would end the children's children if this process were killed too."""
        self._output.say(f"the guard was killed; starting it again in {BACKOFF_FIRST:.0f} s")
        asyncio.get_running_loop().call_later(BACKOFF_FIRST, self._renew_guard)

    def _renew_guard(self) -> None:
        self._guard.renew()
        self._expect_guard()

    def _on_signal(self) -> None:
        now = time.monotonic()
        if not self._asked.is_set():
            self._asked_at = now
            self._output.say("stopping; a second Ctrl-C kills")
            self._output.hush()
            self._asked.set()
        elif now - self._asked_at > IMPATIENCE:
            self._hurry = True
            for child in self._children.values():
                child.kill()

    async def _keep(self, service: Service) -> None:
        """Start one service and, unless it is a one-off, start it again whenever it ends."""
        await asyncio.gather(*(self._ready[name].wait() for name in service.after))
        began = time.monotonic()
        try:
            child = await self._start(service)
            if trouble := await self._until_ready(service, child, service.deadline):
                raise LauncherError(_failure(service, child, trouble))
        except LauncherError as error:
            if not service.optional:
                raise
            self._output.say(f"{error}\n    Everything else starts without it.")
            await self._give_up(service)
            return
        self._output.say(
            f"{service.name} {'ready' if service.ready else 'done'} after {time.monotonic() - began:.1f} s"
        )
        self._ready[service.name].set()
        backoff, began, patience = BACKOFF_FIRST, time.monotonic(), service.deadline
        while service.ready:
            status = await self._until_ended(service, child)
            backoff = BACKOFF_FIRST if time.monotonic() - began > SETTLED else backoff
            expected = status == service.expendable
            pause = 0.0 if expected else backoff
            self._output.say(f"{service.name} {_ending(status)}; starting it again in {pause:.0f} s")
            child.kill()
            await child.sweep()
            self._guard.forget(child.pid)
            await asyncio.sleep(pause)
            backoff, began = backoff if expected else min(backoff * 2, BACKOFF_LAST), time.monotonic()
            try:
                child = await self._start(service)
            except LauncherError as error:
                # Somebody holds what the service needs, and lets go of it sooner or later: the next turn tries again.
                self._output.say(str(error))
                continue
            if trouble := await self._until_ready(service, child, patience):
                self._output.say(f"{service.name} {trouble}")
                child.kill()
                patience = max(service.deadline, min(patience * 2, PATIENCE_LAST))
            else:
                patience = service.deadline
                self._output.say(f"{service.name} is ready again")

    async def _give_up(self, service: Service) -> None:
        if child := self._children.get(service.name):
            child.kill()
            await child.sweep()
            self._guard.forget(child.pid)
        self._ready[service.name].set()

    async def _start(self, service: Service) -> Child:
        if service.ready_file:
            service.ready_file.unlink(missing_ok=True)
        if service.locks is None:
            return self._start_now(service)
        held = await asyncio.to_thread(lock.acquire_store, service.locks, self._asked.is_set)
        try:
            return self._start_now(service, held)
        finally:
            # From here on it is the child that holds it, and nobody but the child.
            os.close(held)

    def _start_now(self, service: Service, *held: int) -> Child:
        try:
            child = Child(
                service.command,
                environ={**self._environ, **service.environ},
                cwd=ROOT,
                mark=f"{self._guard.run}:{service.name};",
                reaper=self._reaper,
                on_line=lambda text: self._output.line(service.name, text),
                pass_fds=(*service.pass_fds, *held),
                turn=service.turn,
            )
        except OSError as error:
            raise LauncherError(f"{service.name} cannot be started: {service.command[0]}: {error.strerror}.") from error
        self._children[service.name] = child
        self._guard.watch(child.pid)
        return child

    async def _until_ready(self, service: Service, child: Child, patience: float) -> str | None:
        """Return None once the child is ready (a one-off: done), else what went wrong, after `patience` s at most."""
        probe: asyncio.Future[Any] = (
            asyncio.ensure_future(service.ready(child)) if service.ready else asyncio.shield(child.ended)
        )
        try:
            await asyncio.wait([probe, child.ended], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            probe.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await probe
        if child.ended.done():
            status = child.ended.result()
            return None if status == 0 and not service.ready else f"{_ending(status)} before it was ready"
        return f"was not ready within {patience:.0f} s" if probe.cancelled() else None

    async def _until_ended(self, service: Service, child: Child) -> int:
        """Do what belongs beside a child that is ready; return its exit status."""
        beside = asyncio.ensure_future(service.beside(child)) if service.beside else None
        try:
            return await asyncio.shield(child.ended)
        finally:
            if beside is not None:
                beside.cancel()

    async def _stop_all(self) -> None:
        """Stop each child once all that were started after it for its sake are gone; then sweep what is left."""
        deadline = time.monotonic() + STOP_LIMIT
        stopped = {name: asyncio.Event() for name in self._services}

        async def stop(service: Service) -> None:
            dependents = [other.name for other in self._services.values() if service.name in other.after]
            await asyncio.gather(*(stopped[name].wait() for name in dependents))
            child = self._children.get(service.name)
            if child and not child.ended.done():
                grace = 0.0 if self._hurry else min(service.grace, max(0.0, deadline - time.monotonic()))
                how = "stopped" if await child.stop(grace, service.ends_by) and not self._hurry else "killed"
                self._output.say(f"{service.name} {how}")
            stopped[service.name].set()

        await asyncio.gather(*(stop(service) for service in reversed(self._services.values())))
        await asyncio.to_thread(leftovers.end, self._guard.run, [child.pid for child in self._children.values()])
        self._reaper.collect()


def _ending(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"


def _failure(service: Service, child: Child, trouble: str) -> str:
    lines = "".join(f"\n    {line}" for line in child.tail)
    return f"{service.name} {trouble}; its last lines:{lines}" if lines else f"{service.name} {trouble}, without output"
