use super::*;

#[test]
fn a_name_is_looked_up_on_our_own_path_and_a_path_is_taken_as_it_is() {
    let environment: EnvironmentLookup = Arc::new(|name| (name == "PATH").then(|| "relative:/nowhere:/bin".to_owned()));
    assert_eq!(find_program("sh", &environment), Some(PathBuf::from("/bin/sh")));
    assert_eq!(find_program("no-such-program", &environment), None);
    assert_eq!(find_program("./x", &environment), Some(PathBuf::from("./x")));
}

#[test]
fn an_interpreter_beside_the_program_is_found() {
    assert_eq!(
        default_path(Path::new("/opt/node/bin/npx")),
        "/opt/node/bin:/usr/local/bin:/usr/bin:/bin"
    );
    assert_eq!(default_path(Path::new("x")), "/usr/local/bin:/usr/bin:/bin");
}

#[tokio::test]
async fn standard_error_is_remembered_bounded_and_clean() {
    let mut scrubber = Scrubber::default();
    scrubber.add_secret(&SecretString::new("s3cr3t-value"));
    let mut text = "x".repeat(1_000_000);
    text.push_str("\nthe key is s3cr3t-value\nlast");
    let words = Arc::<StderrLines>::default();
    collect_stderr(text.as_bytes(), Arc::clone(&words), scrubber.clone()).await;
    let last = words.joined();
    // Wherever a line is cut, no part of a secret is left, also behind other secrets that are shorter once hidden.
    for (before, times) in (MAX_STDERR_LINE_BYTES - 20..MAX_STDERR_LINE_BYTES + 20)
        .flat_map(|before| [(before, 1), (before, 2), (before % 40, 40)])
    {
        let text = format!(
            "{}{}{}",
            "y".repeat(before),
            "s3cr3t-value".repeat(times),
            "z".repeat(before % 7)
        );
        let words = Arc::<StderrLines>::default();
        collect_stderr(text.as_bytes(), Arc::clone(&words), scrubber.clone()).await;
        assert!(!words.joined().contains("s3c"), "{}", words.joined());
    }
    assert!(last.ends_with("\nthe key is [redacted]\nlast"), "{last}");
    assert!(last.len() < 500);
}
