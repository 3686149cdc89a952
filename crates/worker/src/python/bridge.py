# The way to the worker: calls go out, and their answers are taken by the event loops, one wait at a time.
import binascii
import math
import selectors
import weakref


class _Bridge:
    """Calls to the worker and its answers. Answers are read by whichever event loop waits, for all of them."""

    # One place for all that is read, made before any program: a new one each time costs more than the reading.
    _chunk = memoryview(bytearray(64 * 1024))
    _INLINE = 4 * 1024
    _PIECE = 32 * 1024

    def __init__(self, channel):
        self._channel = channel
        self._lock = threading.RLock()
        self._waiting = {}
        self._frames = []
        # What was recorded before calls that are not sent yet.
        self._unsent = bytearray()
        self._loops = weakref.WeakSet()
        self._last_loop = None
        # The loop that will send the calls that were made. Another one that makes calls does not rely on it: it may have stopped.
        self._sends = None
        self._held = bytearray()
        self._taken = []
        self.made = 0
        # Answers that are here and were not taken, by number, in the order they came.
        self.answers = {}
        # Whether the worker wants to know when the program waits.
        self.asked = False

    def call(self, loop, head, body, label):
        future = loop.create_future()
        recorded = _tape.cut()
        with self._lock:
            self.made += 1
            self._waiting[self.made] = (future, loop, label)
            if self._last_loop is not loop:
                self._listen(loop)
            if self._sends is not loop:
                loop.call_soon(self.send)
                self._sends = loop
            if len(recorded) > self._INLINE:
                self._frames += self._pieces(recorded)
                trace = b""
            else:
                trace = binascii.b2a_base64(recorded, newline=False)
            self._unsent += recorded
            self._frames.append(b'{"call":%d,%b,"trace":"%b","body":%b}' % (self.made, head, trace, body))
        return future

    def _listen(self, loop):
        """Every loop that ever asked reads answers: of several in threads, any may be the last to end."""
        if loop not in self._loops:
            self._loops.add(loop)
            loop.add_reader(_CONTROL, self._settle)
        self._last_loop = loop

    def _pieces(self, recorded):
        starts = range(0, len(recorded), self._PIECE)
        pieces = (binascii.b2a_base64(recorded[start : start + self._PIECE], newline=False) for start in starts)
        return [b'{"trace":"%b"}' % piece for piece in pieces]

    def send(self):
        """Sends the calls that were made."""
        with self._lock:
            frames, self._frames = self._frames, []
            self._sends = None
            self._unsent.clear()
            if frames:
                self._channel.sendall(b"".join(part for frame in frames for part in (struct.pack(">I", len(frame)), frame)))

    def tell(self, message):
        """Says something out of turn."""
        with self._lock:
            send_frame(self._channel, message)

    def finish(self, answer):
        """Says the last thing, behind all that was recorded. Calls that were not sent never will be."""
        with self._lock:
            self._frames = self._pieces(bytes(self._unsent) + _tape.cut() if _tape.tracing else b"")
            self.send()
            send_frame(self._channel, answer)

    def say_that_it_waits(self, timeout):
        self.asked = False
        due = None if timeout is None else _tape.last + math.ceil(timeout * _TICKS_PER_SECOND)
        with self._lock:
            self._frames += self._pieces(_tape.cut())
            self.send()
            send_frame(self._channel, {"waits": {"open": len(self._waiting), "due": due}})

    def receive(self, flags=0):
        """Takes in what is there; waits for it unless the flags say otherwise."""
        with self._lock:
            try:
                count = self._channel.recv_into(self._chunk, 0, flags)
            except BlockingIOError:
                return
            if not count:
                os._exit(_NO_JOB)
            held = self._held
            held += self._chunk[:count]
            start = 0
            while len(held) - start >= 4:
                (size,) = struct.unpack_from(">I", held, start)
                if len(held) - start - 4 < size:
                    break
                self._hear(json.loads(held[start + 4 : start + 4 + size].decode()))
                start += 4 + size
            del held[:start]

    def _hear(self, message):
        number = message.get("return")
        if number is None:
            self.asked = True
        elif number in self._waiting:
            self.answers[number] = message

    def take(self, numbers=None):
        """Takes these answers, or all that are here, for the event loop that settles them; which they are."""
        with self._lock:
            numbers = list(self.answers) if numbers is None else numbers
            self._taken += [self.answers.pop(number) for number in numbers]
        return numbers

    def take_again(self, numbers):
        """Takes these answers, waiting for them: the program did so before."""
        if len(set(numbers)) < len(numbers) or not all(number in self._waiting for number in numbers):
            _diverge("it has not made a call whose answer it took before")
        self.send()
        while not all(number in self.answers for number in numbers):
            self.receive()
        self.take(numbers)

    def _settle(self):
        with self._lock:
            taken, self._taken = self._taken, []
            settled = [(message, *self._waiting.pop(message["return"])) for message in taken]
        running = asyncio._get_running_loop()
        for message, future, loop, label in settled:
            if loop is running:
                _resolve(future, message, label)
            else:
                with contextlib.suppress(RuntimeError):  # it is closed: nobody waits for this
                    loop.call_soon_threadsafe(_resolve, future, message, label)


def _resolve(future, message, label):
    if future.done():
        return
    error = message.get("error")
    if error is None:
        future.set_result(message["ok"])
    else:
        parts = (error[key] for key in ("message", "code", "rule", "hint"))
        future.set_exception(ToolError(*parts, label, error["retry_after_ms"], error["call"]))


class _Selector:
    """The selector of an event loop. It takes the answers itself, so that it can say which, and take the same again."""

    def __init__(self, inner):
        self._inner = inner
        self._first = None
        self._listens = False
        self.modify, self.close = inner.modify, inner.close
        self.get_key, self.get_map = inner.get_key, inner.get_map

    def register(self, fileobj, events, data=None):
        key = self._inner.register(fileobj, events, data)
        if self._first is None:
            self._first = key.fd  # by which a loop wakes itself
        elif key.fd == _CONTROL:
            self._listens = True
        else:
            _tape.spoil("it waits for a descriptor of its own")
        return key

    def unregister(self, fileobj):
        key = self._inner.unregister(fileobj)
        if key.fd == _CONTROL:
            self._listens = False
        return key

    def select(self, timeout=None):
        if _tape.replaying:
            return self._select_again(timeout)
        asked = timeout
        if timeout:
            timeout = max(0, timeout - _tape.behind())
        if self._listens and (timeout != 0 or _bridge.answers):
            return self._select_answers(timeout, asked)
        events = self._inner.select(timeout)
        if events and self._listens and self._receive(events):
            return self._take(events)
        _tape.waited(())
        return events

    def _select_answers(self, timeout, asked):
        bridge = _bridge
        until = timeout and _tape.seconds() + timeout
        wait = 0 if bridge.answers or bridge.asked else timeout
        while True:
            events = self._inner.select(wait)
            if self._receive(events):
                return self._take(events)
            if not events and timeout is None:
                wait = None
            elif not events:
                wait = until - _tape.seconds()
            if events or wait is not None and wait <= 0:
                _tape.waited(())
                return events
            if bridge.asked:
                bridge.say_that_it_waits(asked)

    def _receive(self, events):
        """Takes the worker's event out and reads what it is about; whether there are answers."""
        for place, (key, _) in enumerate(events):
            if key.fd == _CONTROL:
                del events[place]
                _bridge.receive(socket.MSG_DONTWAIT)
                break
        return _bridge.answers

    def _take(self, events):
        _tape.waited(_bridge.take())
        events.append((self.get_key(_CONTROL), selectors.EVENT_READ))
        return events

    def _select_again(self, timeout):
        numbers = _tape.waited_before()
        events = [event for event in self._inner.select(0) if event[0].fd != _CONTROL]
        if numbers:
            if not self._listens:
                _diverge("it took answers where it does not wait for any")
            _bridge.take_again(numbers)
            events.append((self.get_key(_CONTROL), selectors.EVENT_READ))
        elif timeout is None and not events:
            _diverge("it waits where it went on before")
        return events


_bridge = None


def _open_bridge(channel):
    global _bridge
    _bridge = _Bridge(channel)
