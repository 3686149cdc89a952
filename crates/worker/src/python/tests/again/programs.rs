//! Programs made of pieces that read the clock, draw random numbers, wait and call.
use super::Dice;

const HEAD: &str = "
import asyncio, datetime, os, random, secrets, tempfile, time, uuid

async def ask(n, depth=1):
    try:
        found = await tools.s.some(n=n, r=random.random())
    except ToolError as error:
        found = {'sum': error.code}
    print('got', n, found['sum'], round(time.time() * 1e4))
    if depth and n % 3 == 0:
        await tools.s.more(n=n, sum=found['sum'], t=time.time_ns())
    return found['sum']
";

const PIECES: [&str; 19] = [
    "print(time.time(), time.monotonic_ns(), time.perf_counter(), time.strftime('%H:%M:%S'), time.process_time())",
    "print(datetime.datetime.now(), datetime.datetime.now(datetime.timezone.utc), datetime.date.today(), datetime.datetime.today())",
    "print(random.random(), random.Random().random(), random.SystemRandom().random(), secrets.token_hex(4), os.urandom(3).hex())",
    "print(uuid.uuid1(), uuid.uuid4(), tempfile.mktemp())",
    "print(await asyncio.gather(*(ask(n) for n in range(COUNT))))",
    "for each in asyncio.as_completed([ask(n) for n in range(COUNT)]):\n    print('then', await each)",
    "left = {asyncio.create_task(ask(n)) for n in range(COUNT)}
while left:
    done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
    print([task.get_name() for task in done], [task.result() for task in done])",
    "async with asyncio.TaskGroup() as group:\n    for n in range(COUNT % 9):\n        group.create_task(ask(n))",
    "for n in range(4):
    try:
        print(await asyncio.wait_for(ask(n, 0), 0.0015))
    except asyncio.TimeoutError:
        print('too late', round(time.monotonic() * 1e4))",
    "await asyncio.sleep(0.001 * (COUNT % 4))",
    "time.sleep(0.002)",
    "async def race(n):
    await asyncio.sleep(0.0007 * n)
    await tools.s.raced(n=n, at=time.time())
await asyncio.gather(ask(1), race(1), ask(2), race(2), race(0))",
    "asyncio.get_running_loop().call_later(0.001, lambda: print('called', time.time()))\nawait ask(5)",
    "files.write('x/COUNT.txt', str(time.time()))\nprint(files.list('x'), os.listdir('.'), [entry.name for entry in os.scandir('x')])",
    "print({str(n) for n in range(COUNT)}, list({secrets.token_hex(2): 1 for _ in range(5)}))",
    "async def fail(n):
    try:
        await asyncio.sleep(n)
    finally:
        await tools.s.cleaned(n=n)
try:
    async with asyncio.TaskGroup() as group:
        for n in range(7):
            group.create_task(fail(n))
        await ask(1)
        raise ValueError('over')
except* ValueError:
    print('cleaned')",
    "print([await tools.s.one(n=n, t=time.time()) for n in range(COUNT % 12)])",
    "emit({'at': time.time()}, name=f'COUNT-{secrets.token_hex(2)}.json')\nemit(str(random.random()), name='same.txt', type='text/plain')",
    "try:\n    await tools.s.refuse(t=time.time())\nexcept ToolError as error:\n    print(error.code, error.retry_after_ms)",
];

/// Generates the program for this seed.
pub(super) fn generate(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let mut source = HEAD.to_owned();
    for _ in 0..3 + dice.below(6) {
        let piece = PIECES[usize::try_from(dice.below(PIECES.len() as u64)).unwrap()];
        let count = [1, 3, 20, 60][usize::try_from(dice.below(4)).unwrap()];
        source.push_str(&piece.replace("COUNT", &count.to_string()));
        source.push('\n');
    }
    source.push_str("[random.random(), time.time(), await tools.s.last()]");
    source
}

pub(super) const GATHER: &str = "
import asyncio, time
async def one(n):
    await tools.s.first(n=n)
    print(n, time.time())
    return await tools.s.second(n=n, at=time.time())
await asyncio.gather(*(one(n) for n in range(200)))
";

pub(super) const SEVERAL_LOOPS: &str = "
import asyncio, time, random
async def one(n):
    asyncio.create_task(tools.s.forgotten(n=n))
    found = await asyncio.gather(*(tools.s.a(n=n, k=k, r=random.random()) for k in range(5)))
    print(n, time.time(), found)
for n in range(4):
    asyncio.run(one(n))
    time.sleep(0.001)
first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
async def leave():
    asyncio.ensure_future(tools.s.left(at=time.time()))
first.run_until_complete(leave())
second.run_until_complete(one(9))
first.run_until_complete(one(10))
first.close()
second.close()
time.time()
";

pub(super) const TASKS: &str = "
import asyncio, random
async def one(n):
    await tools.s.a(n=n)
    return n
tasks = {asyncio.create_task(one(n)) for n in range(60)}
while tasks:
    done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        await tools.s.b(of=task.result(), at=random.random())
    print([task.get_name() for task in asyncio.all_tasks()])
";

pub(super) const CHANCE: &str = "
import os, random, secrets, tempfile, uuid
print(random.random(), random.Random().random(), random.Random(3).random(), random.SystemRandom().randint(0, 10**9))
print(os.urandom(8).hex(), os.getrandom(4).hex(), secrets.token_urlsafe(), uuid.uuid4(), os.path.basename(tempfile.mktemp()))
random.seed()
print(random.sample(range(1000), 5), uuid.getnode(), random.shuffle([1]))
assert len({os.urandom(4) for _ in range(100)}) == 100 and os.urandom(0) == b''
for wrong in (-1, 'x'):
    try:
        os.urandom(wrong)
        print('no error')
    except (ValueError, TypeError):
        pass
";

pub(super) const CLOCKS: &str = "
import copy, datetime, logging, os, pickle, time
from datetime import datetime as moment
from time import monotonic
os.environ['TZ'] = 'UTC'
time.tzset()
print(moment.now().strftime('%Y-%m-%d %H:%M:%S'))
print(datetime.date.today())
class Mine(moment):
    pass
assert type(Mine.now()) is Mine and type(Mine.utcnow()) is Mine and type(moment.now()) is moment
assert isinstance(moment.now(), datetime.datetime) and isinstance(moment.min, moment)
assert moment.now(datetime.timezone.utc).tzinfo is datetime.timezone.utc
assert moment.utcnow().tzinfo is None and moment.today().year == Mine.today().year == 2009
assert pickle.loads(pickle.dumps(moment.now())).year == copy.deepcopy(moment.now()).year == 2009
for year in (time.localtime()[0], time.gmtime(None)[0], int(time.strftime('%Y')), int(time.ctime()[-4:]), int(time.asctime()[-4:])):
    assert year == 2009, year
assert time.localtime(0)[0] == 1970 and time.strftime('%Y', time.gmtime(0)) == '1970' and time.ctime(0).endswith('1970')
for read in (time.time, monotonic, time.perf_counter, lambda: time.clock_gettime(time.CLOCK_MONOTONIC), lambda: time.time_ns() / 1e9):
    assert 1234567890 <= read() < 1234567900, read()
assert 0 <= time.process_time() < 5 and 0 <= time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID) < 5e9
class Formatter(logging.Formatter):
    converter = time.gmtime
assert Formatter('%(asctime)s').format(logging.makeLogRecord({'created': time.time()})).startswith('2009-02-13 23:31:3')
before = time.time()
time.sleep(0.01)
assert 0.0099 <= time.time() - before < 1
for wrong in (-1, 'x', float('nan'), float('inf')):
    try:
        time.sleep(wrong)
        print('no error')
    except (ValueError, TypeError, OverflowError):
        pass
await tools.s.a(t=time.time())
";

pub(super) const ORDERS: &str = "
import glob, os, pathlib
for name in 'qwertzuiopasdfghjkl':
    files.write('d/' + name, name)
print(os.listdir('d'), [e.name for e in os.scandir('d')], glob.glob('d/*'), [p.name for p in pathlib.Path('d').iterdir()])
print(list(os.walk('.')), os.listdir(b'd'))
with os.scandir('d') as entries:
    print(next(entries).is_file())
print({'set', 'of', 'texts', b'and', b'bytes', 1.5, None, (1, 'x')}, hash('text'))
";

pub(super) const UNREPEATABLE: [(&str, &str); 7] = [
    (
        "import socket\none = socket.socket()\none.connect_ex(('127.0.0.1', 9))\nawait tools.s.a()\n'done'",
        "it uses the network",
    ),
    (
        "import threading\nfound = []\nfor n in range(3):\n    one = threading.Thread(target=found.append, args=(n,))\n    one.start()\n    one.join()\n'done' if found == [0, 1, 2] else found",
        "it starts a thread",
    ),
    (
        "import _thread, time\nfound = []\n_thread.start_new_thread(found.append, (1,))\nwhile not found: time.sleep(0.001)\n'done'",
        "it starts a thread",
    ),
    (
        "import asyncio, time\nawait asyncio.to_thread(time.sleep, 0.001)\nawait asyncio.get_running_loop().run_in_executor(None, time.time)\nawait tools.s.a()\n'done'",
        "it starts a thread",
    ),
    (
        "import concurrent.futures as f, asyncio\nasync def ask(n):\n    return await tools.s.a(n=n)\nfor _ in range(8):\n    with f.ThreadPoolExecutor(4) as pool:\n        list(pool.map(lambda n: asyncio.run(ask(n)), range(9)))\n'done'",
        "it starts a thread",
    ),
    (
        "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()\n'done'",
        "it sets an alarm",
    ),
    (
        "import asyncio, os\nread, write = os.pipe()\nloop, seen = asyncio.get_running_loop(), asyncio.Event()\nloop.add_reader(read, seen.set)\nos.write(write, b'x')\nawait seen.wait()\nloop.remove_reader(read)\nawait tools.s.a()\n'done'",
        "it waits for a descriptor of its own",
    ),
];
