//! Values for which JSON has no form.

use super::PythonResult;
use super::programs::{check, run};

#[test]
fn kinds_that_json_does_not_have_take_their_usual_form() {
    for (source, json) in [
        ("[1, {2, 1}, frozenset('a')]", "[1, [1, 2], [\"a\"]]"),
        (
            "[b'gr\\xc3\\xbcn', bytearray(b'x'), memoryview(b'y')]",
            "[\"grün\", \"x\", \"y\"]",
        ),
        (
            "import datetime as d\n[d.date(2020, 1, 2), d.datetime(2020, 1, 2, 3, 4), d.time(5), d.timedelta(minutes=1)]",
            "[\"2020-01-02\", \"2020-01-02T03:04:00\", \"05:00:00\", 60.0]",
        ),
        (
            "from decimal import Decimal\n{'sum': Decimal('19.90')}",
            "{\"sum\": \"19.90\"}",
        ),
        (
            "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n    seen: set\nP(1, {2})",
            "{\"x\": 1, \"seen\": [2]}",
        ),
        (
            "import enum, uuid, pathlib, fractions\nE = enum.Enum('E', 'A')\n[E.A, uuid.UUID(int=1), pathlib.Path('/a'), fractions.Fraction(1, 3)]",
            "[1, \"00000000-0000-0000-0000-000000000001\", \"/a\", \"1/3\"]",
        ),
        (
            "d = {'a': 1}\n[d.keys(), d.values(), d.items(), range(2)]",
            "[[\"a\"], [1], [[\"a\", 1]], [0, 1]]",
        ),
        (
            "import collections, types\n[collections.deque([1]), types.MappingProxyType({'a': {1}})]",
            "[[1], {\"a\": [1]}]",
        ),
        (
            "import datetime\n{datetime.date(2020, 1, 2): {1}, 2: 3, None: 4}",
            "{\"2020-01-02\": [1], \"2\": 3, \"null\": 4}",
        ),
        ("[ValueError('x')]", "[{\"type\": \"ValueError\", \"message\": \"x\"}]"),
        (
            "ToolError('no', 'call.failed', 'tools.default', 'ask')",
            "{\"type\": \"ToolError\", \"code\": \"call.failed\", \"message\": \"no\", \"rule\": \"tools.default\", \"hint\": \"ask\", \
             \"tool\": null, \"retry_after_ms\": null}",
        ),
    ] {
        check(source, json);
        assert_eq!(run(source).stderr, "", "{source}");
    }
}

#[test]
fn a_value_of_another_kind_is_its_repr_with_a_notice_and_the_run_is_good() {
    for (source, json, notice) in [
        (
            "{'a': [float('nan')]}",
            "{\"a\": [null]}",
            "value['a'][0] is nan, which JSON cannot hold: null is given instead; replace it",
        ),
        (
            "[1j, print]",
            "[\"1j\", \"<built-in function print>\"]",
            "value[1] is a builtin_function_or_method, which",
        ),
        (
            "b'\\xff'",
            "\"/w==\"",
            "the value is bytes that are no UTF-8 text, which JSON cannot hold: base64 is given",
        ),
        (
            "{(1, 2): 3}",
            "{\"(1, 2)\": 3}",
            "the value is a dict with a tuple as a key, which JSON cannot hold",
        ),
        (
            "{1: {2}, '1': 3}",
            "[[1, [2]], [\"1\", 3]]",
            "a list of pairs is given instead; use strings as keys",
        ),
        (
            "a = [1]\na.append(a)\na",
            "[1, \"[circular]\"]",
            "value[1] is a reference back to what holds it",
        ),
        (
            "class P:\n    def __repr__(self):\n        return 'P!'\n{'p': P()}",
            "{\"p\": \"P!\"}",
            "value['p'] is a P, which JSON cannot hold: its `repr` is given instead; convert it: `vars(x)`",
        ),
        (
            "[range(10 ** 9)]",
            "[\"range(0, 1000000000)\"]",
            "convert it: `list(x)`",
        ),
    ] {
        let ran = run(&format!("print('kept')\n{source}"));
        let value_json = Some(json.to_owned());
        assert_eq!(ran.result, PythonResult::Completed { value_json }, "{source}");
        assert!(ran.stderr.starts_with("notice: "), "{source}: {}", ran.stderr);
        assert!(ran.stderr.contains(notice), "{source}: {}", ran.stderr);
        assert_eq!((ran.stdout.as_str(), ran.stderr.lines().count()), ("kept\n", 1));
    }
}

#[test]
fn no_value_fails_a_run_by_its_depth_its_methods_or_its_number_of_oddities() {
    let deep = "a = []\nfor _ in range(100000):\n    a = [a]\na";
    let broken = "class B:\n    def __repr__(self):\n        raise KeyError(1)\nB()";
    let endless = "import itertools\nitertools.count()";
    let many = "[object() for _ in range(1000)]";
    for (source, notices) in [(deep, 1), (broken, 1), (endless, 1), (many, 6)] {
        let ran = run(source);
        let PythonResult::Completed { value_json: Some(text) } = ran.result else {
            panic!("{source}: {ran:?}")
        };
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        assert_eq!(ran.stderr.lines().count(), notices, "{source}: {}", ran.stderr);
    }
}

/// Stands for what the libraries do where they are not installed; a test of the program runs the real ones.
const NUMPY: &str = "
import sys, types
class Kind:
    def __init__(self, kind): self.kind = kind
class generic:
    ndim = 0
    def __init__(self, item, kind): self._item, self.dtype = item, Kind(kind)
    def tolist(self): return self._item
    def __float__(self): return float(self._item)
    def __str__(self): return str(self._item)
class ndarray(generic):
    def __init__(self, items): super().__init__(items, 'O'); self.ndim = 1
    def __len__(self): return len(self._item)
    def __iter__(self): raise AssertionError('an array is read by tolist')
class float64(float): pass
for kind in (generic, ndarray, float64): kind.__module__ = 'numpy'
";

#[test]
fn numbers_and_arrays_of_numpy_are_read_by_its_own_methods() {
    for (source, json) in [
        (
            "{'n': generic(5, 'i'), 'x': generic(0.5, 'f'), 'nan': generic(float('nan'), 'f')}",
            "{\"n\": 5, \"x\": 0.5, \"nan\": null}",
        ),
        ("ndarray([[1, float('nan')], [generic(2, 'i')]])", "[[1, null], [2]]"),
        ("{generic(5, 'i'): {1}}", "{\"5\": [1]}"),
        ("[float64('nan'), float64(0.5)]", "[null, 0.5]"),
    ] {
        let source = format!("{NUMPY}{source}");
        check(&source, json);
        assert_eq!(run(&source).stderr, "", "{source}");
    }
}

#[test]
fn arguments_of_a_tool_are_not_guessed_and_the_hint_fits_the_kind() {
    for (argument, hint) in [("ndarray([1])", "`x.tolist()`"), ("{1}", "`sorted(x)` or `list(x)`")] {
        let ran = run(&format!("{NUMPY}from tools import a\nawait a.b(c={argument})"));
        let PythonResult::Failed(error) = ran.result else {
            panic!("{ran:?}")
        };
        assert!(error.message.contains(hint), "{}", error.message);
    }
}
