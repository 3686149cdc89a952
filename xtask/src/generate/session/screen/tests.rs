use super::{MAX_COLUMNS, ScreenLine, draw};

fn printed(text: &str) -> ScreenLine {
    ScreenLine::Printed(text.to_owned())
}

#[test]
fn each_line_has_its_place_and_its_look() {
    let lines = [
        ScreenLine::Typed("ringfence run a.ts".to_owned()),
        printed("1 < 2 && 3 > 2"),
        printed(""),
        printed("  indented"),
    ];
    let picture = draw(&lines).unwrap();
    let texts: Vec<_> = picture.lines().filter(|line| line.starts_with("<text ")).collect();
    let expected = [
        r#"<text x="18" y="32" class="typed">$ ringfence run a.ts</text>"#,
        r#"<text x="18" y="53">1 &lt; 2 &amp;&amp; 3 &gt; 2</text>"#,
        r#"<text x="18" y="95">  indented</text>"#,
    ];
    assert_eq!(texts, expected);
    // Twenty characters and four lines, with a margin on each side.
    assert!(
        picture.contains(r#"width="216" height="120" viewBox="0 0 216 120""#),
        "{picture}"
    );
    assert!(picture.ends_with("</svg>\n"), "{picture}");
}

#[test]
fn nothing_in_it_runs_or_is_loaded() {
    let picture = draw(&[printed("<script>alert(1)</script>")]).unwrap();
    for part in ["<script", "<a ", "<image", "@import", "url("] {
        assert!(!picture.contains(part), "{part}: {picture}");
    }
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    assert!(draw(&[printed(&"x".repeat(MAX_COLUMNS))]).is_ok());
    assert!(draw(&[printed(&"x".repeat(MAX_COLUMNS + 1))]).is_err());
    assert!(draw(&[printed("\u{1b}[1mbold")]).is_err());
}
