use super::*;

#[test]
fn every_address_has_its_kind() {
    let table = include_str!("../../testdata/addresses.tsv");
    let lines: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() > 50);
    for line in lines {
        let (address, kind) = line.split_once('\t').unwrap();
        let got = AddressKind::classify(address.parse().unwrap());
        assert_eq!(format!("{got:?}"), kind, "{address}");
    }
}

#[test]
fn what_is_never_opened() {
    for (net, never) in [
        ("127.0.0.0/8", true),
        ("127.0.0.1/32", true),
        ("169.254.0.0/16", true),
        ("169.254.169.254/32", true),
        ("::1/128", true),
        ("fe80::/10", true),
        ("10.0.0.0/8", false),
        ("100.64.0.0/10", false),
        ("fd00::/8", false),
        ("192.168.1.0/24", false),
    ] {
        assert_eq!(is_never_openable(&net.parse().unwrap()), never, "{net}");
    }
}
