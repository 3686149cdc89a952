use proptest::prelude::*;

use super::*;

#[track_caller]
fn bytes(text: &str, expected: Option<u64>) {
    assert_eq!(text.parse::<ByteSize>().ok().map(ByteSize::get), expected, "{text}");
}

#[test]
fn bytes_have_units_of_two_kinds() {
    bytes("512MiB", Some(512 << 20));
    bytes("30KiB", Some(30 << 10));
    bytes("1GB", Some(1_000_000_000));
    bytes("7kB", Some(7_000));
    bytes("4096", Some(4_096));
    bytes("1B", Some(1));
    bytes("1024TiB", Some(1 << 50));
    for text in [
        "",
        "0",
        "0MiB",
        "-1",
        "1.5GiB",
        "1 MiB",
        "MiB",
        "12m",
        "1mib",
        "NaN",
        "inf",
        "1e9",
        "+1",
        "1025TiB",
        "99999999999999999999",
        "18446744073709551615GiB",
        "٣MiB",
    ] {
        bytes(text, None);
    }
    assert_eq!(ByteSize::mib(64).to_string(), "64MiB");
    assert_eq!(ByteSize::mib(0).get(), 1);
    assert_eq!(ByteSize::gib(u64::MAX), ByteSize::MAX);
}

#[track_caller]
fn period(text: &str, millis: Option<u64>) {
    let got = text.parse::<Period>().ok().map(Period::get);
    assert_eq!(got, millis.map(Duration::from_millis), "{text}");
}

#[test]
fn periods_need_a_unit_and_an_end() {
    period("30s", Some(30_000));
    period("10m", Some(600_000));
    period("1h", Some(3_600_000));
    period("250ms", Some(250));
    period("7d", Some(604_800_000));
    for text in [
        "",
        "0s",
        "0",
        "30",
        "-1s",
        "NaN",
        "nan",
        "inf",
        "1.5h",
        "1 s",
        "s",
        "366d",
        "1y",
        "99999999999999999999s",
        "18446744073709551615h",
        "1e3s",
    ] {
        period(text, None);
    }
}

#[test]
fn rates_compare_by_hour_and_by_burst() {
    let rate = |text: &str| text.parse::<Rate>().unwrap();
    assert!(!rate("60/min").exceeds(rate("60/min")));
    assert!(rate("61/min").exceeds(rate("60/min")));
    assert!(rate("2/s").exceeds(rate("60/min")));
    assert!(!rate("1/s").exceeds(rate("60/min")));
    assert!(!rate("1000/h").exceeds(rate("60/min")));
    for text in ["", "60", "0/min", "-1/min", "60/day", "60 /min", "4294967296/s", "/s"] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
}

#[test]
fn processors_are_kept_in_thousandths() {
    for (text, millis) in [
        ("2", 2_000),
        ("0.5", 500),
        ("1.25", 1_250),
        ("0.001", 1),
        ("2.0", 2_000),
        ("1.5000", 1_500),
    ] {
        assert_eq!(text.parse::<CpuCount>().unwrap().as_millis(), millis, "{text}");
    }
    for text in [
        "",
        "0",
        "0.0",
        "-1",
        "NaN",
        "inf",
        "1.",
        ".5",
        "0.0001",
        "4097",
        "1e3",
        "99999999999",
    ] {
        assert!(text.parse::<CpuCount>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(count in 1u64..1 << 50, millis in 1u64..31_536_000_000, cpus in 1u32..4_096_000) {
        let bytes = ByteSize::new(count).unwrap();
        prop_assert_eq!(bytes.to_string().parse(), Ok(bytes));
        let period = Period::new(Duration::from_millis(millis)).unwrap();
        prop_assert_eq!(period.to_string().parse(), Ok(period));
        let cpus = CpuCount::millis(cpus).unwrap();
        prop_assert_eq!(cpus.to_string().parse(), Ok(cpus));
    }

    #[test]
    fn parsing_never_panics(text in "\\PC{0,24}") {
        let _ = (text.parse::<ByteSize>(), text.parse::<Period>());
        let _ = (text.parse::<Rate>(), text.parse::<CpuCount>());
    }
}
