"""The wall around the engine: the JVM and all that it starts see the lake, their own folder and a few ports.

`python -I -S analytics/wall.py <rules> <program> …` puts itself behind the wall and becomes the program; what that
starts is behind it as well, and nothing takes it down. `python -m analytics.wall` tells what this machine can do.

Two mechanisms of Linux, both open to every user, neither of which can be undone by the process that asked for it:

* Landlock (landlock(7); since 5.13) opens folders, TCP ports (since 6.7) and signals to the domain (since 6.12), and
  everything else is refused: other folders, /proc of other processes, abstract sockets.
* seccomp (seccomp(2)) refuses the system calls that go round Landlock: sockets that have no port (the embedded Redis
  listens on one) or whose port Landlock does not look at, io_uring, changes of owner and mode.

Only the standard library, and no module of ours: it runs without site-packages.
"""

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

#: GANTRY_ENGINE_WALL: where it is available; where it is not Spark does not start; never.
MODES = ("auto", "require", "off")

#: Landlock without the right to rename between folders (5.13 to 5.18) is none that Spark can work behind.
_OLDEST_ABI = 2
_TCP_ABI, _SCOPE_ABI = 4, 6

# The numbers of Landlock's system calls are the same on every processor (linux/landlock.h, landlock(7)).
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_DIR, _MAKE_REG, _REFER, _TRUNCATE = 1 << 7, 1 << 8, 1 << 13, 1 << 14
_BIND_TCP, _CONNECT_TCP = 1, 2
_CAPBSET_DROP, _SET_NO_NEW_PRIVS = 24, 38  # linux/prctl.h
_SCOPES = 0b11  # abstract unix sockets, signals
#: All rights over files that a version of Landlock knows; what is not in it cannot be refused there.
_FILE_RIGHTS = {2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}

_READ = _READ_FILE | _READ_DIR
_RUN = _READ | _EXECUTE
#: No links, pipes, sockets or devices: what other processes find in the lake is files and folders.
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE

#: What any program needs of the system: libraries, programs, names, certificates, time zones, the size of the machine.
_SYSTEM_PROGRAMS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store")
_SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
    *("/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols", "/etc/localtime", "/etc/timezone"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/ca-trust", "/etc/pki/tls/certs"),
    *("/etc/pki/tls/openssl.cnf", "/etc/pki/java", "/etc/crypto-policies"),
    # What is private in /proc (environ, mem, maps, fd, root, …) the kernel opens to one's own domain only.
    "/proc",
    *("/sys/fs/cgroup", "/sys/devices/system", "/sys/kernel/mm/transparent_hugepage", "/sys/kernel/mm/hugepages"),
    *("/dev/random", "/dev/urandom", "/dev/zero"),
)
_SYSTEM_SINKS = ("/dev/null",)

#: Descriptors that the engine may have open: enough for Spark, and few enough to be closed one by one, as Java does
#: before it starts a program when it may not list them.
_MOST_DESCRIPTORS = 65_536

_ALLOW, _DENY, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
#: The call does nothing and says that it did: Hadoop sets modes, which the umask has made right already.
_PRETEND = _DENY | 0

#: In the type of a socket, what is not a flag.
_KIND = 0xF
#: Sends in the packet that opens a connection, and so connects without a call that Landlock judges.
_MSG_FASTOPEN = 0x20000000
#: x86_64 has a second interface, whose calls have numbers from here on.
_SECOND_INTERFACE = 0x40000000

# Instructions: load a word; mask it; go on if it is equal, or at least; answer.
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANSWER = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16  # in struct seccomp_data
_ANY = 0xFFFFFFFF
_Instruction = tuple[int, int, int, int]
#: A number of an argument, its bits that count, and what they are.
_Condition = tuple[int, int, int]


class NoWall(Exception):  # noqa: N818
    """The wall cannot be built; the message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the program behind the wall may do beside what every program needs."""

    #: Folders and files to read and to run programs from, such as a Java.
    programs: Sequence[str] = ()
    #: Folders and files to read.
    reads: Sequence[str] = ()
    #: Folders to read and write.
    writes: Sequence[str] = ()
    #: TCP ports to connect to, on any host, since Landlock knows no addresses. None: all.
    ports: Sequence[int] | None = ()
    #: TCP ports to listen on beside those that the system chooses.
    listens: Sequence[int] = ()
    #: Whether UDP is open, which asking a name server needs.
    names: bool = False
    #: To build it as on an older kernel; never more than this one's.
    abi: int = 1 << 16


def abi() -> int:
    """The version of the kernel's Landlock; 0 without one."""
    found = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(int(found), 0)


def shortcoming() -> str:
    """What is missing for the whole wall on this machine, as a sentence; empty when nothing is."""
    if os.environ.get("GANTRY_ENGINE_WALL") == "off":
        return "The SQL engine stands behind no wall: GANTRY_ENGINE_WALL is off."
    return _shortcoming(abi())


def _shortcoming(version: int) -> str:
    if platform.machine() not in _MACHINES:
        return f"The SQL engine stands behind no wall: there is none for the processor {platform.machine()}."
    if version < _OLDEST_ABI:
        return "The SQL engine stands behind no wall: that takes Linux 5.19 or later with Landlock switched on."
    if version < _TCP_ABI:
        return "The SQL engine's wall holds files but not TCP ports: that takes Linux 6.7 or later."
    if version < _SCOPE_ABI:
        return "The SQL engine's wall holds files and TCP ports but not signals: that takes Linux 6.12 or later."
    return ""


def is_wanted() -> bool:
    """Whether Spark is to start behind the wall, by GANTRY_ENGINE_WALL. Raises NoWall when it may not start without."""
    mode = os.environ.get("GANTRY_ENGINE_WALL") or MODES[0]
    if mode not in MODES:
        raise NoWall(f"GANTRY_ENGINE_WALL is {mode!r}; allowed are {', '.join(MODES)}.")
    if mode == "require" and (lacking := shortcoming()):
        raise NoWall(f"{lacking} GANTRY_ENGINE_WALL requires the whole wall.")
    return mode != "off" and is_available()


def is_available(version: int | None = None) -> bool:
    """Whether files, at least, can be walled off."""
    return (abi() if version is None else version) >= _OLDEST_ABI and platform.machine() in _MACHINES


def command(rules: Rules, program: Sequence[str]) -> list[str]:
    """The command that runs a program behind the wall."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), json.dumps(asdict(rules)), *program]


def enter(rules: Rules) -> None:
    """Put this process behind the wall, for good. Raises NoWall."""
    version = min(abi(), rules.abi)
    if not is_available(version):
        raise NoWall(_shortcoming(version))
    # Of root, should we be that, only the name remains: its programs get no capabilities.
    capability = 0
    while _libc().prctl(_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    _call("PR_SET_NO_NEW_PRIVS", _libc().prctl, _SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _landlock(rules, version)
    _filter_system_calls(names=rules.names)


def _landlock(rules: Rules, version: int) -> None:
    files = _FILE_RIGHTS[max(known for known in _FILE_RIGHTS if known <= version)]
    ports = 0 if version < _TCP_ABI or rules.ports is None else _BIND_TCP | _CONNECT_TCP
    # struct landlock_ruleset_attr, as long as the version knows it: files; TCP; scopes.
    fields = [files, ports, _SCOPES][: 1 + (version >= _TCP_ABI) + (version >= _SCOPE_ABI)]
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _call("landlock_create_ruleset", _syscall, _CREATE_RULESET, attributes, len(attributes), 0)
    for right, paths in (
        (_RUN, (*_SYSTEM_PROGRAMS, *rules.programs)),
        (_READ, (*_SYSTEM_FILES, *rules.reads)),
        (_READ_FILE | _WRITE_FILE, _SYSTEM_SINKS),
        (_WRITE, rules.writes),
    ):
        for path in paths:
            _open_path(ruleset, path, right & files)
    if ports:
        for port in {0, *rules.listens}:
            _open_port(ruleset, port, _BIND_TCP)
        for port in set(rules.ports or ()):
            _open_port(ruleset, port, _CONNECT_TCP)
    _call("landlock_restrict_self", _syscall, _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _open_path(ruleset: int, path: str, rights: int) -> None:
    """Grant rights over a file, or over a folder with all below it; a path that is not there is passed over."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights &= ~0 if stat.S_ISDIR(os.fstat(opened).st_mode) else _OF_A_FILE
        rule = struct.pack("=Qi", rights, opened)  # struct landlock_path_beneath_attr
        _call(f"landlock_add_rule for {path}", _syscall, _ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(opened)


def _open_port(ruleset: int, port: int, rights: int) -> None:
    rule = struct.pack("=QQ", rights, port)  # struct landlock_net_port_attr
    _call(f"landlock_add_rule for port {port}", _syscall, _ADD_RULE, ruleset, _NET_PORT, rule, 0)


# What seccomp is told: a program for a small machine (linux/filter.h) that sees the number of a system call and its
# arguments, but not what they point to.


@dataclass(frozen=True, slots=True)
class _Machine:
    """A processor: its number in audit(7), and the numbers of system calls there."""

    audit: int
    socket: int
    socketpair: int
    sendto: int
    sendmsg: int
    sendmmsg: int
    prlimit: int
    seccomp: int
    #: Which change the owner or the mode of a path: Landlock has no right for that.
    pretended: tuple[int, ...]
    #: Extended attributes of paths, memory of others, what begins a system call without one, debugging of the kernel.
    refused: tuple[int, ...]


# io_uring_setup, _enter, _register; pidfd_getfd; setxattrat, removexattrat: the same everywhere.
_REFUSED_EVERYWHERE = (425, 426, 427, 438, 463, 466)
_FCHMODAT2 = 452
_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E, socket=41, socketpair=53, sendto=44, sendmsg=46, sendmmsg=307, prlimit=302, seccomp=317,
        # chmod, chown, lchown, fchownat, fchmodat
        pretended=(90, 92, 94, 260, 268, _FCHMODAT2),
        # setxattr, lsetxattr, removexattr, lremovexattr, ptrace, process_vm_readv, process_vm_writev, truncate
        refused=(188, 189, 197, 198, 101, 310, 311, 76, *_REFUSED_EVERYWHERE),
    ),
    "aarch64": _Machine(
        audit=0xC00000B7, socket=198, socketpair=199, sendto=206, sendmsg=211, sendmmsg=269, prlimit=261, seccomp=277,
        # fchownat, fchmodat
        pretended=(54, 53, _FCHMODAT2),
        # setxattr, lsetxattr, removexattr, lremovexattr, ptrace, process_vm_readv, process_vm_writev, truncate
        refused=(5, 6, 14, 15, 117, 270, 271, 45, *_REFUSED_EVERYWHERE),
    ),
}  # fmt: skip


def _filter_system_calls(*, names: bool) -> None:
    machine = _MACHINES[platform.machine()]
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in _program(machine, names=names))
    buffer = ctypes.create_string_buffer(program, len(program))
    description = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    set_filter, allow_speculation = 1, 1 << 2  # the flag: what else old kernels slow everything down by guards nothing
    _call("seccomp", _syscall, machine.seccomp, set_filter, allow_speculation, description)


def _program(machine: _Machine, *, names: bool) -> list[_Instruction]:
    """The rules one after the other; the first that fits a call answers it, and what none fits is allowed."""
    # Landlock calls MPTCP no TCP, so the protocol counts; netlink is how programs learn the machine's own addresses.
    sockets = [(socket.SOCK_STREAM, (0, socket.IPPROTO_TCP))]
    sockets += [(socket.SOCK_DGRAM, (0, socket.IPPROTO_UDP))] if names else []
    opened: list[tuple[_Condition, ...]] = [
        ((0, _ANY, family), (1, _KIND, kind), (2, _ANY, protocol))
        for family in (socket.AF_INET, socket.AF_INET6)
        for kind, protocols in sockets
        for protocol in protocols
    ]
    opened.append(((0, _ANY, socket.AF_NETLINK), (2, _ANY, 0)))
    denied, no_such_family = _DENY | errno.EPERM, _DENY | errno.EAFNOSUPPORT
    rules = [
        *(_rule(machine.socket, conditions, _ALLOW) for conditions in opened),
        _rule(machine.socket, (), no_such_family),
        _rule(machine.socketpair, ((1, _KIND, socket.SOCK_STREAM),), _ALLOW),
        _rule(machine.socketpair, (), no_such_family),
        _rule(machine.sendto, ((3, _MSG_FASTOPEN, _MSG_FASTOPEN),), denied),
        _rule(machine.sendmsg, ((2, _MSG_FASTOPEN, _MSG_FASTOPEN),), denied),
        _rule(machine.sendmmsg, ((3, _MSG_FASTOPEN, _MSG_FASTOPEN),), denied),
        _rule(machine.prlimit, ((0, _ANY, 0),), _ALLOW),
        _rule(machine.prlimit, (), denied),  # of another process
        *(_rule(number, (), _PRETEND) for number in machine.pretended),
        *(_rule(number, (), denied) for number in machine.refused),
    ]
    foreign = [(_LOAD, 0, 0, _MACHINE_AT), (_EQUAL, 1, 0, machine.audit), (_ANSWER, 0, 0, _KILL)]
    if machine is _MACHINES["x86_64"]:
        foreign += [(_LOAD, 0, 0, _NUMBER_AT), (_AT_LEAST, 0, 1, _SECOND_INTERFACE), (_ANSWER, 0, 0, denied)]
    return [*foreign, *(instruction for rule in rules for instruction in rule), (_ANSWER, 0, 0, _ALLOW)]


def _rule(number: int, conditions: tuple[_Condition, ...], answer: int) -> list[_Instruction]:
    """Answer the system call with the number if all conditions hold."""
    tests: list[tuple[int, int, int]] = [(_NUMBER_AT, _ANY, number)]
    tests += [(_ARGUMENTS_AT + 8 * argument, mask, value) for argument, mask, value in conditions]  # the low half
    instructions: list[_Instruction] = [(_ANSWER, 0, 0, answer)]
    for offset, mask, value in reversed(tests):
        masked = [(_AND, 0, 0, mask)] if mask != _ANY else []
        instructions = [(_LOAD, 0, 0, offset), *masked, (_EQUAL, 0, len(instructions), value), *instructions]
    return instructions


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    """A system call by its number; texts are passed as pointers to them."""
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return int(_libc().syscall(ctypes.c_long(number), *passed))


def _call(what: str, function: Callable[..., int], *arguments: int | bytes | None) -> int:
    found = function(*arguments)
    if found < 0:
        raise NoWall(f"The SQL engine's wall cannot be built: {what}: {os.strerror(ctypes.get_errno())}.")
    return found


def _become(rules: Rules, program: Sequence[str]) -> None:
    """Be the program, behind the wall, with files that are its owner's alone and without core dumps."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = _MOST_DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _MOST_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    enter(rules)
    os.execv(program[0], list(program))  # noqa: S606  the program of `command`


def main(arguments: Sequence[str]) -> int:
    """Become a program, or print what is missing here and return 0; 1 when Spark cannot start for it."""
    try:
        if arguments:
            _become(Rules(**json.loads(arguments[0])), arguments[1:])
        is_wanted()
    except (NoWall, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    if lacking := shortcoming():
        print(lacking)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
