"""Runs inside the sandbox: tries to get out in every way and prints, as JSON, which ways worked.

Arguments, as JSON: `secret` (in the parent's environment and in files), `home`, `outside` (a file),
`parent` (its process id), `tcp`, `udp` (ports where the parent listens), `local`, `abstract` (its sockets),
`network` (its namespace), `only` (names of ways, or null for all).
"""

import contextlib
import ctypes
import json
import os
import pathlib
import platform
import socket
import sys

given = json.loads(sys.argv[1])
secret = given["secret"]
outside = pathlib.Path(given["outside"])
libc = ctypes.CDLL(None, use_errno=True)
column = 0 if platform.machine() == "x86_64" else 1
ways = {}


def way(function):
    ways[function.__name__] = function
    return function


def call(numbers, *arguments):
    if libc.syscall(ctypes.c_long(numbers[column]), *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return True


def connect(family, kind, address):
    with socket.socket(family, kind) as client:
        client.settimeout(2)
        client.connect(address)
        client.send(b"out")
    return True


# Files.
@way
def read_passwd():
    return "root" in pathlib.Path("/etc/passwd").read_text()


@way
def read_shadow():
    return bool(pathlib.Path("/etc/shadow").read_text())


@way
def read_home():
    return secret in (pathlib.Path(given["home"]) / "key").read_text()


@way
def list_home():
    return any(path.name == "key" for path in pathlib.Path(given["home"]).iterdir())


@way
def read_through_link():
    link = pathlib.Path("link")
    link.symlink_to(outside)
    try:
        return secret in link.read_text()
    finally:
        link.unlink()


@way
def read_through_process_root():
    return secret in pathlib.Path(f"/proc/{given['parent']}/root{outside}").read_text()


@way
def read_above():
    return secret in pathlib.Path("../outside/file").read_text()


@way
def hard_link():
    os.link(outside, "hard")
    return True


@way
def write_outside():
    outside.write_text("changed")
    return True


@way
def append_outside():
    with outside.open("a") as file:
        file.write("changed")
    return True


@way
def make_outside():
    (outside.parent / "made").write_text("here")
    return (outside.parent / "made").exists()


@way
def truncate_outside():
    os.truncate(outside, 1)
    return True


@way
def change_mode_outside():
    outside.chmod(0o777)
    return True


@way
def remove_outside():
    outside.unlink()
    return True


@way
def rename_outside():
    own = pathlib.Path("own")
    own.write_text("own")
    own.rename(outside)
    return True


@way
def write_to_libraries():
    (pathlib.Path(os.__file__).parent / "planted.py").write_text("")
    return True


@way
def write_to_usr():
    pathlib.Path("/usr/planted").write_text("")
    return True


@way
def write_kernel_setting():
    pathlib.Path("/proc/sys/kernel/hostname").write_text("sandbox")
    return True


@way
def open_disk():
    os.mknod("disk", 0o660 | 0o060000, os.makedev(254, 0))
    return True


# Network.
@way
def tcp():
    return connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", given["tcp"]))


@way
def tcp_listen():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind(("0.0.0.0", 0))
        server.listen()
        # A port of its own, in a network of its own, reaches nobody.
        return str(pathlib.Path("/proc/self/ns/net").readlink()) == given["network"]


@way
def udp():
    connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", given["udp"]))
    return str(pathlib.Path("/proc/self/ns/net").readlink()) == given["network"]


@way
def udp_far():
    return connect(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 9))


@way
def udp6():
    return connect(socket.AF_INET6, socket.SOCK_DGRAM, ("2001:db8::1", 9))


@way
def resolve_name():
    return bool(socket.getaddrinfo("example.com", 80))


@way
def local_socket():
    return connect(socket.AF_UNIX, socket.SOCK_STREAM, given["local"])


@way
def abstract_socket():
    return connect(socket.AF_UNIX, socket.SOCK_STREAM, given["abstract"])


@way
def raw_packets():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW):
        return True


# Other processes.
@way
def read_environment():
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if secret.encode() in (folder / "environ").read_bytes():
                return True
    return False


@way
def own_environment():
    return secret in str(dict(os.environ))


@way
def inherited_descriptors():
    # One of those listed is the listing itself.
    return len([path for path in pathlib.Path("/proc/self/fd").iterdir() if int(path.name) > 2]) > 1


@way
def signal_parent():
    os.kill(given["parent"], 0)
    return True


@way
def kill_supervisor():
    if os.getppid() == 1:  # process 1 of the sandbox: the kernel drops the signal
        return False
    os.kill(os.getppid(), 0)
    return True


@way
def trace_parent():
    return call((101, 117), 16, os.getppid(), 0, 0)


@way
def read_memory():
    return bool(pathlib.Path(f"/proc/{os.getppid()}/mem").open("rb"))


# Rights.
@way
def become_root():
    os.setuid(0)
    return True


@way
def mount():
    return call((165, 40), b"tmpfs", b".", b"tmpfs", 0, None)


@way
def change_root():
    os.chroot(".")
    return True


@way
def raise_limit():
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (hard + 1, hard + 1))
    return True


# What only the filter takes away.
@way
def trace_me():
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.syscall(ctypes.c_long((101, 117)[column]), 0, 0, 0, 0) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


@way
def new_namespace():
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.unshare(0x10000000) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


@way
def clone_namespace():
    pid = libc.syscall(ctypes.c_long((56, 220)[column]), 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return pid > 0


@way
def new_clone():
    child = libc.syscall(ctypes.c_long(435), ctypes.create_string_buffer(64), 64)
    if child == 0:
        os._exit(0)
    return child > 0 or ctypes.get_errno() != 38


@way
def keys():
    return call((250, 219), 0, -3, 1, 0, 0)


@way
def ring():
    return call((425, 425), 1, ctypes.create_string_buffer(256))


@way
def uncounted_memory():
    return call((319, 279), b"memory", 0)


@way
def uncounted_shared_memory():
    return call((29, 194), 0, 4096, 0o1600)


results = {}
for name, attempt in ways.items():
    if given["only"] is not None and name not in given["only"]:
        continue
    try:
        results[name] = bool(attempt())
    except (OSError, ValueError):
        results[name] = False
sys.stdout.write(json.dumps(results))
