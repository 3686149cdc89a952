use super::*;

#[test]
fn what_the_advice_installs_is_what_is_found() {
    let home = tempfile::tempdir().unwrap();
    let none = CheckerTools::find(home.path());
    assert_eq!(none, CheckerTools::default());
    let advice = none.advice(home.path());
    let commands: Vec<&str> = advice.iter().map(|one| one.command.as_str()).collect();
    let tools = home.path().join("tools");
    let expected = [
        format!("npm install --prefix {}/npm typescript@7.0.2", tools.display()),
        format!(
            "python3 -m venv {0}/py && {0}/py/bin/pip install ty==0.0.100",
            tools.display()
        ),
    ];
    assert_eq!(commands, expected);
    let tsc = tools
        .join("npm/node_modules/@typescript")
        .join(compiler_package())
        .join("lib/tsc");
    let ty = tools.join("py/bin/ty");
    for file in [&tsc, &ty] {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    let found = CheckerTools::find(home.path());
    let (tsc, ty) = (Some(tsc), Some(ty));
    assert_eq!(found, CheckerTools { tsc, ty: ty.clone() });
    assert!(found.advice(home.path()).is_empty());
    let named = CheckerTools {
        tsc: Some("/mine/tsc".into()),
        ty: None,
    };
    assert_eq!(
        named.with_fallback(found),
        CheckerTools {
            tsc: Some("/mine/tsc".into()),
            ty
        }
    );
}

#[test]
fn a_path_is_quoted_for_a_shell() {
    assert_eq!(shell_quoted(Path::new("/a/b-c")), "/a/b-c");
    assert_eq!(shell_quoted(Path::new("/it's here")), r"'/it'\''s here'");
}
