# What a program finds in the library in place of what would differ each time: the clock, chance, the order of folders, the order
# of tasks. Also what cannot be repeated at all is noticed here. All of it is put in place once, before the first program.
import _thread
import base64
import ctypes
import itertools
import signal
import time
import uuid

_tape = _Tape(time.monotonic_ns, time.time_ns)
_chance = _Chance()


class _Clock:
    """The functions of `time`. Bound methods, because like builtin functions they may be attributes of classes."""

    _CPU = {getattr(time, name) for name in ("CLOCK_PROCESS_CPUTIME_ID", "CLOCK_THREAD_CPUTIME_ID") if hasattr(time, name)}
    _real = types.SimpleNamespace(**vars(time))

    def time(self):
        return _tape.ticks() / _TICKS_PER_SECOND

    def time_ns(self):
        return _tape.ticks() * _TICK

    monotonic = perf_counter = time
    monotonic_ns = perf_counter_ns = time_ns

    def process_time(self):
        return (_tape.ticks() - _tape.start) / _TICKS_PER_SECOND

    def process_time_ns(self):
        return (_tape.ticks() - _tape.start) * _TICK

    thread_time, thread_time_ns = process_time, process_time_ns

    def clock_gettime(self, clock, /):
        self._real.clock_getres(clock)
        return self.process_time() if clock in self._CPU else self.time()

    def clock_gettime_ns(self, clock, /):
        self._real.clock_getres(clock)
        return self.process_time_ns() if clock in self._CPU else self.time_ns()

    def get_clock_info(self, name, /):
        found = self._real.get_clock_info(name)
        found.resolution = 1 / _TICKS_PER_SECOND
        return found

    def localtime(self, seconds=None, /):
        return self._real.localtime(self.time() if seconds is None else seconds)

    def gmtime(self, seconds=None, /):
        return self._real.gmtime(self.time() if seconds is None else seconds)

    def ctime(self, seconds=None, /):
        return self._real.ctime(self.time() if seconds is None else seconds)

    def asctime(self, *moment):
        return self._real.asctime(*(moment or (self.localtime(),)))

    def strftime(self, format, *moment):
        return self._real.strftime(format, *(moment or (self.localtime(),)))

    def sleep(self, seconds, /):
        if not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e9:
            return self._real.sleep(seconds)  # for its errors
        again = _tape.replaying
        start = _tape.ticks()
        if _tape.replaying:
            return
        if again:
            # It fell asleep before it was run again.
            seconds = max(0, seconds - (_tape.peek() - start) / _TICKS_PER_SECOND)
        self._real.sleep(seconds)


class _Places:
    """Folders have an order: that of their names."""

    _listdir, _scandir = staticmethod(os.listdir), staticmethod(os.scandir)

    def listdir(self, path=None):
        return sorted(self._listdir(path))

    def scandir(self, path=None):
        with self._scandir(path) as entries:
            return _Entries(sorted(entries, key=operator.attrgetter("name")))


class _Entries:
    def __init__(self, entries):
        self._entries = iter(entries)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._entries = iter(())


class _Spoiling:
    """A function whose effect comes at a time of its own."""

    def __init__(self, function, why):
        self._function, self._why = function, why

    def __call__(self, *values, **options):
        _tape.spoil(self._why)
        return self._function(*values, **options)


class Task(asyncio.Task):
    """A task whose place in a set does not depend on its address."""

    __module__ = "asyncio"
    _made = itertools.count(1)

    def __new__(cls, *values, **options):
        self = super().__new__(cls)
        self._ringfence_number = next(cls._made)
        return self

    def __hash__(self):
        return self._ringfence_number


def _now(cls, tz=None):
    """The time now, in a time zone if one is given."""
    return _FROM_TIMESTAMP.__get__(None, cls)(time.time(), tz)


def _utcnow(cls):
    """The time now as a clock in Greenwich shows it."""
    return _FROM_TIMESTAMP.__get__(None, cls)(time.time(), datetime.timezone.utc).replace(tzinfo=None)


_FROM_TIMESTAMP = vars(datetime.datetime)["fromtimestamp"]


def _replace_time_of_dates():
    """`now` of the type itself: a subclass in its place would not be the type of what C code makes."""
    (space,) = gc.get_referents(vars(datetime.datetime))
    for name, function in (("now", _now), ("utcnow", _utcnow)):
        function.__name__ = function.__qualname__ = name
        space[name] = classmethod(function)
    modified = ctypes.pythonapi.PyType_Modified
    modified.argtypes, modified.restype = [ctypes.py_object], None
    modified(datetime.datetime)


def _replace_chance():
    plain = random.Random.seed

    def seed(self, a=None, version=2):
        plain(self, int.from_bytes(_chance.urandom(32), "little") if a is None else a, version)

    random.Random.seed = seed
    random.seed = random._inst.seed
    # Otherwise a library outside Python gives the time and the machine's address.
    uuid._generate_time_safe = uuid._UuidCreate = None


def _replace_loops():
    plain = asyncio.selector_events.BaseSelectorEventLoop.__init__

    def start(self, selector=None):
        plain(self, _Selector(selectors.DefaultSelector() if selector is None else selector))

    plain_as_completed = asyncio.as_completed

    @functools.wraps(plain_as_completed)
    def as_completed(fs, *, timeout=None):
        # Of coroutines it would make tasks in the order of their addresses.
        if asyncio._get_running_loop() is not None and not asyncio.isfuture(fs) and not asyncio.iscoroutine(fs):
            fs = [asyncio.ensure_future(one) for one in dict.fromkeys(fs)]
        return plain_as_completed(fs, timeout=timeout)

    asyncio.as_completed = asyncio.tasks.as_completed = as_completed
    asyncio.selector_events.BaseSelectorEventLoop.__init__ = start
    asyncio.Task = asyncio.tasks.Task = Task


_NO_NETWORK = "this session has no network: `net.enabled` is not true in its policy; do without it, or use a tool"
_NO_NAMES = "names are looked up by the proxy alone: use a client that reads HTTPS_PROXY, such as urllib, requests or httpx"


class _Network:
    """Whether the program has one."""

    is_open = False


def _open_network():
    """asyncio was imported without TLS, which only a program with a network has a use for."""
    import ssl

    _Network.is_open = True
    for name, module in list(sys.modules.items()):
        if name.startswith("asyncio.") and vars(module).get("ssl", module) is None:
            module.ssl = ssl
    asyncio.sslproto.SSLAgainErrors = (ssl.SSLWantReadError, ssl.SSLSyscallError)


def _replace_sockets():
    """A program without a network is told so; one that uses its network does not meet the same again."""
    base = socket.socket
    start, plain_connect, plain_connect_ex = base.__init__, base.connect, base.connect_ex

    @functools.wraps(start)
    def init(self, *values, **options):
        try:
            start(self, *values, **options)
        except PermissionError as error:
            if _Network.is_open:
                raise
            raise PermissionError(error.errno, _NO_NETWORK) from None

    def connect(self, address, /):
        _tape.spoil("it uses the network")
        return plain_connect(self, address)

    def connect_ex(self, address, /):
        _tape.spoil("it uses the network")
        return plain_connect_ex(self, address)

    base.__init__, base.connect, base.connect_ex = init, connect, connect_ex

    def explained(look_up):
        @functools.wraps(look_up)
        def asked(*values, **options):
            if not _Network.is_open:
                raise socket.gaierror(socket.EAI_FAIL, _NO_NETWORK)
            try:
                return look_up(*values, **options)
            except socket.gaierror as error:
                raise socket.gaierror(error.errno, f"{error.strerror} ({_NO_NAMES})") from None

        return asked

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        setattr(socket, name, explained(getattr(socket, name)))


def _replace_world():
    """Before the first program. Modules that took a function by its name get the new one too."""
    clock, places = _Clock(), _Places()
    new = {time: {name: getattr(clock, name) for name in dir(clock) if not name.startswith("_") and hasattr(time, name)}}
    new[os] = {"urandom": _chance.urandom, "getrandom": _chance.getrandom, "listdir": places.listdir, "scandir": places.scandir}
    for module, names, why in (
        (_thread, ("start_new_thread", "start_new", "start_joinable_thread"), "it starts a thread"),
        (signal, ("alarm", "setitimer"), "it sets an alarm"),
    ):
        new[module] = {name: _Spoiling(getattr(module, name), why) for name in names if hasattr(module, name)}
    found = {id(getattr(module, name)): function for module, names in new.items() for name, function in names.items()}
    for module in list(sys.modules.values()):
        space = vars(module) if isinstance(module, types.ModuleType) else {}
        if space is not globals():
            for name, value in list(space.items()):
                if id(value) in found:
                    space[name] = found[id(value)]
    _replace_time_of_dates()
    _replace_chance()
    _replace_loops()
    _replace_sockets()
    # The first hash is slow: no program should wait for it.
    _chance.urandom(1)


def _begin_world(job):
    """The world of one program."""
    if job.get("network"):
        _open_network()
    _chance.begin(job["seed"])
    random.seed()
    uuid._node = int.from_bytes(_chance.urandom(6), "little") | 1 << 40
    _tape.begin(job["clock"], base64.b64decode(job["trace"]))
