//! Tests of tables.

use super::visit_cells;

#[track_caller]
fn check(text: &str, expected: &[(&str, &str)]) {
    let mut found = Vec::new();
    visit_cells(text, &mut |text, cell| {
        found.push((cell.telling.kind.to_string(), text[cell.start..cell.end].to_owned()));
    });
    let found: Vec<_> = found
        .iter()
        .map(|(kind, value)| (kind.as_str(), value.as_str()))
        .collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn columns_tell_by_their_header() {
    check(
        "id,Full Name,phone\n1,\"Lee, Ann\",555 0100\n2,Bob,\n",
        &[
            ("name", "Lee, Ann"),
            ("phone", "555 0100"),
            ("name", "Bob"),
            ("phone", ""),
        ],
    );
    check("city;x\r\nOulu;1\r\n", &[("place", "Oulu")]);
    check(
        "| name | n |\n|:---|---|\n| Ann | 1 |\n| Bob | 2 |\n\nname | x",
        &[("name", "Ann"), ("name", "Bob")],
    );
}

#[test]
fn prose_is_no_table() {
    check("Dear customer, your phone is here. Yes, it is.\nBye, now, then", &[]);
    check("phone,email", &[]);
    check("", &[]);
    check("name,\"open\nnever closed", &[]);
    check("Client\nHTTP client for Node\n", &[]);
    check("Password\nhow to change it\n", &[]);
}

#[test]
fn a_header_is_found_below_other_lines() {
    check(
        "\n\nname,phone\nAnn,555 0100\n",
        &[("name", "Ann"), ("phone", "555 0100")],
    );
    check(
        "Customers of today, 2 in all.\n# as of noon\nid;email\n1;ann@intranet\n",
        &[("email", "ann@intranet")],
    );
    check(
        "name,n\nAnn,1\n\nOrders:\nid,city\n1,Oulu\n",
        &[("name", "Ann"), ("place", "Oulu")],
    );
    check("name\nAnn Lee\nBo Ek\n", &[("name", "Ann Lee"), ("name", "Bo Ek")]);
    check("name\nThis is what the thing is called by everybody here.\n", &[]);
    check("Address\n\nWhere it goes: the place\n", &[]);
}

#[test]
fn a_row_of_another_width_leaves_the_others_alone() {
    check(
        "id,name,city\n1,Ann\n2,Bo,Oulu\n3,Cy,Turku,x\n",
        &[
            ("name", "Ann"),
            ("name", "Bo"),
            ("place", "Oulu"),
            ("name", "Cy"),
            ("place", "Turku"),
            ("place", "x"),
        ],
    );
    check(
        "name,phone\nLee, Ann,555 0100\n",
        &[("name", "Lee"), ("name", "Ann"), ("phone", "555 0100")],
    );
}

#[test]
fn quotes_count_only_where_a_cell_begins() {
    check(
        "name,note,city\nAnn,5\" pipe,Oulu\n\"Lee, \"\"Bo\"\"\", \"a\nb\",Turku\n\"Cy,x,Oulu\nDi,y,Kemi\n",
        &[
            ("name", "Ann"),
            ("place", "Oulu"),
            ("name", "Lee, \"\"Bo"),
            ("place", "Turku"),
            ("name", "Cy"),
            ("place", "Oulu"),
            ("name", "Di"),
            ("place", "Kemi"),
        ],
    );
}

#[test]
fn drawn_tables_are_read() {
    let box_drawn = "Customers\n┌─────────┬───────────┐\n│ (index) │ name      │\n├─────────┼───────────┤\n│ 0       │ 'Ann Lee' │\n│ 1       │ 'Bo'      │\n└─────────┴───────────┘\n2 rows";
    check(box_drawn, &[("name", "Ann Lee"), ("name", "Bo")]);
    check(
        "+----+------+\n| id | city |\n+----+------+\n|  1 | Oulu |\n+----+------+\n",
        &[("place", "Oulu")],
    );
    check(" id | city \n----+------\n  1 | Oulu\n(1 row)\n", &[("place", "Oulu")]);
}

#[test]
fn columns_without_a_header_tell_by_what_stands_in_them() {
    check(
        "1,Maria Garcia,030 1234567,x\n2,Xyzzy Plugh,0171 2345678,y\n3,Ann Lee,030 7654321,z\n",
        &[
            ("name", "Maria Garcia"),
            ("phone", "030 1234567"),
            ("name", "Xyzzy Plugh"),
            ("phone", "0171 2345678"),
            ("name", "Ann Lee"),
            ("phone", "030 7654321"),
        ],
    );
    check(
        "Ann Lee;ann@example.com\nxyzzy;bo@example.com\nOlga Ivanova;o@example.com\n",
        &[
            ("name", "Ann Lee"),
            ("email", "ann@example.com"),
            ("name", "xyzzy"),
            ("email", "bo@example.com"),
            ("name", "Olga Ivanova"),
            ("email", "o@example.com"),
        ],
    );
    check("react,18.2.0,MIT\nvue,3.4.1,MIT\n", &[]);
    check("2026-01-01,12.5,Berlin\n2026-01-02,13.1,Berlin\n", &[]);
    check("Ann Lee,12\nBo Ek,13\n", &[]);
    check("Yes, it is.\nNo, it is not.\n", &[]);
}
