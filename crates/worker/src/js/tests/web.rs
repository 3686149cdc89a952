//! Names that programs know from browsers and servers: URLs, random values, digests.

use super::{check, failure, run_again, value};

#[test]
fn urls_are_read_joined_and_changed_by_the_standard() {
    for (source, json) in [
        (
            "const u = new URL('../x?q=ü a#f g', 'HTTPS://u:p@EXAMPLE.com:443/a/b/c'); [u.href, u.origin, u.host, u.pathname, u.search, u.hash, u.username]",
            r##"["https://u:p@example.com/a/x?q=%C3%BC%20a#f%20g","https://example.com","example.com","/a/x","?q=%C3%BC%20a","#f%20g","u"]"##,
        ),
        (
            "['http://münchen.de', 'http://0x7f.1', 'http://[0:0:1::0]:80/', 'file:///a/../b', 'mailto:a@b', 'http://h/a/%2e%2e/b'].map(u => new URL(u).href)",
            r#"["http://xn--mnchen-3ya.de/","http://127.0.0.1/","http://[0:0:1::]/","file:///b","mailto:a@b","http://h/b"]"#,
        ),
        (
            "const u = new URL('https://h/'); u.searchParams.append('a b', 'c&d'); u.port = '8443'; u.hash = 'x'; u.pathname = 'p q'; `${u}`",
            r#""https://h:8443/p%20q?a+b=c%26d#x""#,
        ),
        (
            "const p = new URLSearchParams('b=1&a=2&b=3'); p.sort(); p.delete('a'); [`${p}`, p.get('b'), p.getAll('b'), p.has('a'), [...new URLSearchParams({ x: '1' })]]",
            r#"["b=1&b=3","1",["1","3"],false,[["x","1"]]]"#,
        ),
        (
            "[URL.canParse('no'), URL.canParse('x', 'http://h'), URL.parse('http://a b')]",
            "[false,true,null]",
        ),
        (
            "({ u: new URL('http://h'), p: new URLSearchParams('a=1') })",
            r#"{"u":"http://h/","p":"a=1"}"#,
        ),
    ] {
        check(source, json);
    }
    let fault = failure("new URL('/only/a/path')");
    assert_eq!(
        (fault.name.as_str(), fault.message.as_str()),
        ("TypeError", "`/only/a/path` is not a valid URL")
    );
}

#[test]
fn digests_are_those_of_the_standard() {
    let hex = "const hex = async (name: any) => new Uint8Array(await crypto.subtle.digest(name, new TextEncoder().encode('abc'))).toHex();";
    for (name, digest) in [
        ("'SHA-1'", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            "'sha-256'",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            "{ name: 'SHA-512' }",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ] {
        check(&format!("{hex} await hex({name})"), &format!("\"{digest}\""));
    }
    check(
        "const view = new Uint8Array([0, 97, 98, 99]).subarray(1); new Uint8Array(await crypto.subtle.digest('SHA-256', view)).toHex().slice(0, 8)",
        "\"ba7816bf\"",
    );
    for (source, name) in [
        (
            "await crypto.subtle.digest('MD5', new Uint8Array(1))",
            "NotSupportedError",
        ),
        ("await crypto.subtle.digest('SHA-256', 'abc' as any)", "TypeError"),
        ("await (crypto.subtle as any).sign()", "NotSupportedError"),
        (
            "crypto.getRandomValues(new Float64Array(1) as any)",
            "TypeMismatchError",
        ),
        ("crypto.getRandomValues(new Uint8Array(65537))", "QuotaExceededError"),
    ] {
        assert_eq!(failure(source).name, name, "{source}");
    }
}

#[test]
fn chance_comes_from_the_seed_and_comes_again() {
    let source =
        "[crypto.randomUUID(), [...crypto.getRandomValues(new Uint32Array(3))], crypto.randomUUID(), Math.random()]";
    let with = |seed| run_again(source, seed, &[]).0;
    assert_eq!(with(7), with(7));
    assert_ne!(with(7), with(8));
    // Neither generator advances the other's sequence.
    check(
        "const one = crypto.randomUUID(); Math.random(); const two = crypto.randomUUID(); \
         [/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(one), one !== two]",
        "[true,true]",
    );
    assert_eq!(value("Math.random()"), value("crypto.randomUUID(); Math.random()"));
}

#[test]
fn intl_is_missing_with_a_word_about_what_helps() {
    let fault = failure("new Intl.NumberFormat('de').format(1)");
    assert!(
        fault.message.starts_with("Intl.NumberFormat is not available here"),
        "{}",
        fault.message
    );
    assert!(fault.message.contains("`toFixed`"), "{}", fault.message);
    check("typeof Intl", "\"object\"");
}
