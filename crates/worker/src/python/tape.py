# The program's clock and its trace. What reaches a program besides its job and the answers to its calls is the time, and which
# answers it took when it waited: both are written down here, so that the program can be run again, and read from here when it is.
import operator

_TICK = 100_000  # nanoseconds
_TICKS_PER_SECOND = 10_000
_MAX_TRACE = 4 << 20
_MOST_ALIKE = 1023
_LAST_TICK = 253_402_300_800 * _TICKS_PER_SECOND  # the year 10000
# The trace is a row of numbers of seven bits a byte, lowest first. The two lowest bits of an entry say what it is; the rest is:
# ticks since the last reading; how often the same was read again; how often nothing was taken; how many answers were, each of
# whose numbers follows.
_READ, _SAME, _NOTHING, _TAKEN = range(4)


class _Tape:
    """The clock of one program: recorded, read from what was recorded, or neither."""

    def __init__(self, monotonic_ns, time_ns):
        self._monotonic_ns, self._time_ns = monotonic_ns, time_ns
        self._offset = time_ns() - monotonic_ns()
        self._recorded = bytearray()
        self._same = self._nothing = 0
        self.last = self.start = 0
        self.tracing = self.replaying = False
        self.ticks = self.peek

    def begin(self, clock, given):
        """Starts the clock. As long as something is given, time and waits come from there."""
        self.start = self.last = clock
        self._offset = clock * _TICK - self._monotonic_ns()
        self._left = _MAX_TRACE - len(given)
        self.tracing = True
        self.ticks = self._record
        if given:
            self.replaying = True
            self.ticks = self._replay
            self._given, self._place = given, 0
            self._advance()

    def peek(self):
        """The time, unrecorded."""
        return (self._monotonic_ns() + self._offset) // _TICK

    def seconds(self):
        """For waiting, whatever the program's clock says."""
        return self._monotonic_ns() / 1e9

    def behind(self):
        """The seconds that the last reading is behind the clock: many, if it was made when the program ran before."""
        return (self.peek() - self.last) / _TICKS_PER_SECOND if self.tracing else 0

    def _record(self):
        now = (self._monotonic_ns() + self._offset) // _TICK
        if now > self.last:
            if self._same or self._nothing:
                self._settle()
            self._put((now - self.last) << 2 | _READ)
            self.last = now
        else:
            if self._nothing or self._same == _MOST_ALIKE:
                self._settle()
            self._same += 1
        return self.last

    def waited(self, numbers):
        """Records which answers a wait took."""
        if not self.tracing:
            return
        if not numbers:
            if self._same or self._nothing == _MOST_ALIKE:
                self._settle()
            self._nothing += 1
            return
        self._settle()
        self._put(len(numbers) << 2 | _TAKEN)
        for number in numbers:
            self._put(number)

    def _settle(self):
        if self._same:
            self._put(self._same << 2 | _SAME)
        elif self._nothing:
            self._put(self._nothing << 2 | _NOTHING)
        self._same = self._nothing = 0

    def _put(self, number):
        while number > 127:
            self._recorded.append(number & 127 | 128)
            number >>= 7
        self._recorded.append(number)
        if len(self._recorded) > self._left:
            self.spoil(f"its trace is longer than {_MAX_TRACE >> 20} MiB")

    def cut(self):
        """What was recorded since the last time."""
        if not self.tracing:
            return b""
        self._settle()
        piece = bytes(self._recorded)
        self._recorded.clear()
        self._left -= len(piece)
        return piece

    def spoil(self, why):
        """From here on the program cannot be run again."""
        if not self.tracing:
            return
        if self.replaying:
            _diverge(f"{why} where it did not before")
        self.tracing = False
        self.ticks = self.peek
        self._recorded.clear()
        self._same = self._nothing = 0
        _bridge.tell({"unrepeatable": why})

    def _replay(self):
        if self._kind == _READ:
            self.last += self._value
            value = self.last
            self._advance()
            return value
        if self._kind != _SAME:
            _diverge("it reads the clock where it waited before")
        value = self.last
        self._use_one()
        return value

    def waited_before(self):
        """Which answers this wait took before."""
        if self._kind == _TAKEN:
            numbers = self._numbers
            self._advance()
            return numbers
        if self._kind != _NOTHING:
            _diverge("it waits where it read the clock before")
        self._use_one()
        return ()

    def _use_one(self):
        self._value -= 1
        if not self._value:
            self._advance()

    def _advance(self):
        """Reads the next entry; behind the last one the clock is a clock again."""
        if self._place == len(self._given):
            self.replaying = False
            self._given = b""
            self._offset = max(self._time_ns(), self.last * _TICK) - self._monotonic_ns()
            self.ticks = self._record
            return
        entry = self._number()
        self._kind, self._value = entry & 3, entry >> 2
        if self._kind == _TAKEN:
            if not 0 < self._value <= len(self._given) - self._place:
                _diverge("its trace is damaged")
            self._numbers = [self._number() for _ in range(self._value)]
        elif self._kind == _READ:
            if self.last + self._value > _LAST_TICK:
                _diverge("its trace is damaged")
        elif not 0 < self._value <= _MOST_ALIKE:
            _diverge("its trace is damaged")

    def _number(self):
        number = shift = 0
        for place in range(self._place, min(self._place + 9, len(self._given))):
            byte = self._given[place]
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                self._place = place + 1
                return number
        _diverge("its trace is damaged")


class _Chance:
    """Random bytes that follow from a seed. They are for programs; nothing of the worker depends on their being secret."""

    def __init__(self):
        self._seed, self._count = b"", 0

    def begin(self, seed):
        self._seed, self._count = seed.to_bytes(8, "little"), 0

    def urandom(self, size, /):
        size = operator.index(size)
        if size < 0:
            raise ValueError("negative argument not allowed")
        self._count += 1
        source = self._seed + self._count.to_bytes(8, "little")
        return hashlib.shake_128(source, usedforsecurity=False).digest(size)

    def getrandom(self, size, flags=0):
        return self.urandom(size)


def _diverge(why):
    """The program does not do what it did before: it ends here, whatever it is in the middle of."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # the program closed it
    _bridge.tell({"kind": "diverged", "calls": _bridge.made, "message": why})
    os._exit(1)
