# The process that forked Python programs come from: everything is imported once, each program gets a fresh copy.
#
# Descriptor 3 is a SOCK_SEQPACKET socket to the worker. One packet with descriptors asks for a child; the child joins its
# cgroups, takes its streams, limits itself, installs the filter, and only then reads its job. Whatever of this fails ends the child.
import bisect
import calendar
import contextlib
import copy
import csv
import enum
import fractions
import hashlib
import heapq
import html
import io
import pprint
import re
import resource
import socket
import statistics
import string
import struct
import textwrap
import typing
import urllib.parse

_CONTROL = 3
_MAX_PACKET = 64 * 1024
_MAX_DESCRIPTORS = 16
_MAX_JOB = 64 << 20
_MOST_FILES = 1 << 16
_NOT_CONFINED = 70
_NO_JOB = 71
_NOT_ANSWERED = 72
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Filter:
    """The system call filter, ready to install without further allocation."""

    def __init__(self, hexadecimal):
        code = bytes.fromhex(hexadecimal)
        if not code or len(code) % 8 or len(code) // 8 > 4096:
            raise ValueError("the filter is not a list of instructions")
        self._code = ctypes.create_string_buffer(code, len(code))
        self._program = _Program(len(code) // 8, ctypes.cast(self._code, ctypes.c_void_p))
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        self._prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        self._prctl.restype = ctypes.c_int

    def install(self):
        for call in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(self._program), 0, 0)):
            if self._prctl(*call) != 0:
                raise OSError(ctypes.get_errno(), "cannot confine the program")


def send_frame(channel, message):
    body = json.dumps(message).encode("ascii")
    channel.sendall(struct.pack(">I", len(body)))
    channel.sendall(body)


def receive_frame(channel):
    (size,) = struct.unpack(">I", _receive(channel, 4))
    if size > _MAX_JOB:
        raise ValueError("the job is too large")
    return json.loads(_receive(channel, size))


def _receive(channel, size):
    body = bytearray(size)
    view, got = memoryview(body), 0
    while got < size:
        count = channel.recv_into(view[got:])
        if count == 0:
            raise EOFError("the worker is gone")
        got += count
    return body


def _confine(header, descriptors, barrier):
    """Makes this process the child of a job; returns its channel."""
    stream, out, err, *groups = descriptors
    for group in groups:
        os.write(group, b"0")
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.dup2(stream, _CONTROL)
    os.set_inheritable(_CONTROL, False)
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.closerange(_CONTROL + 1, open_files if 0 < open_files < _MOST_FILES else _MOST_FILES)
    for name, limit in header.get("rlimits", {}).items():
        soft, hard = limit if isinstance(limit, list) else (limit, limit)
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (soft, hard))
    barrier.install()
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, _CONTROL)


def _child(header, descriptors, barrier):
    """Never returns."""
    try:
        channel = _confine(header, descriptors, barrier)
        send_frame(channel, {"ready": True})
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"cannot start the program: {error}\n".encode())
        os._exit(_NOT_CONFINED)
    try:
        job = receive_frame(channel)
        _open_bridge(channel)
    except BaseException:
        os._exit(_NO_JOB)
    status = _NOT_ANSWERED
    try:
        answer = run(job)
        if _tape.replaying:
            _diverge("it ended where it went on before")
        _bridge.finish(answer)
        status = answer.get("exit_code", 0 if answer["kind"] == "completed" else 1)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"cannot finish the program: {error!r}\n".encode())
    finally:
        os._exit(status)


def _fork(header, descriptors, barrier):
    if len(descriptors) < 3:
        return {"error": "a child needs three descriptors"}
    pid = os.fork()
    if pid == 0:
        _child(header, descriptors, barrier)
    return {"pid": pid}


def _reap(pid):
    _, status = os.waitpid(pid, 0)
    return {"reaped": pid, "status": os.waitstatus_to_exitcode(status)}


def serve(control, barrier):
    """Answers the worker until it closes the socket."""
    control.send(b"ready")
    while True:
        packet, descriptors, flags, _ = socket.recv_fds(control, _MAX_PACKET, _MAX_DESCRIPTORS)
        try:
            if not packet:
                return
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                reply = {"error": "the request was cut"}
            else:
                request = json.loads(packet)
                reply = _reap(request["reap"]) if "reap" in request else _fork(request, descriptors, barrier)
        except (OSError, ValueError, TypeError, KeyError) as error:
            reply = {"error": str(error)}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        control.send(json.dumps(reply).encode("ascii"))


def main():
    if sys.flags.hash_randomization or "" in sys.path:
        raise SystemExit("the interpreter must start with a fixed hash seed and without the working folder in its path")
    _replace_world()
    barrier = Filter(sys.argv.pop())
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, _CONTROL)
    gc.collect()
    gc.freeze()
    serve(control, barrier)


main()
