//! Tests of values that have a form, and of text that only looks like it.

use super::{ScanScope, scan_text};
use crate::finding::resolve_overlaps;
use crate::kind::{SensitiveKind, SensitiveKinds};

#[track_caller]
fn check(text: &str, expected: &[(SensitiveKind, &str)]) {
    let found = resolve_overlaps(
        text,
        scan_text(text, SensitiveKinds::all(), ScanScope::Text, Vec::new()).found,
    );
    let found: Vec<_> = found.iter().map(|one| (one.kind, &text[one.start..one.end])).collect();
    assert_eq!(found, expected, "{text}");
}

#[track_caller]
fn one(text: &str, kind: SensitiveKind, value: &str) {
    check(text, &[(kind, value)]);
}

#[test]
fn addresses_of_mail_end_where_they_end() {
    one(
        "Write to ann.lee+x@mail.example.com.",
        SensitiveKind::Email,
        "ann.lee+x@mail.example.com",
    );
    one("<ANN@EXAMPLE.ORG>", SensitiveKind::Email, "ANN@EXAMPLE.ORG");
    one("jürgen@müller.de, bitte", SensitiveKind::Email, "jürgen@müller.de");
    one(
        "mail:123456789@s.whatsapp.net",
        SensitiveKind::Email,
        "123456789@s.whatsapp.net",
    );
    one("a@example.com.Then more", SensitiveKind::Email, "a@example.com.Then");
    check("icon@2x.png lib@1.2.3 @scope/name a@b git@github.com:org/repo", &[]);
}

#[test]
fn addresses_of_pages_lose_the_punctuation_around() {
    one(
        "see (https://Example.com/a_(b)?q=1#f).",
        SensitiveKind::Url,
        "https://Example.com/a_(b)?q=1#f",
    );
    one(
        "http://www.DialForum.co.uk/",
        SensitiveKind::Url,
        "http://www.DialForum.co.uk/",
    );
    check("https:// and mailto:x and file:///etc", &[]);
}

#[test]
fn what_stands_in_the_address_of_a_page_is_read() {
    let kinds = SensitiveKinds::all()
        .without(SensitiveKind::Url)
        .without(SensitiveKind::Ip);
    let check = |text: &str, expected: &[(SensitiveKind, &str)]| {
        let found = resolve_overlaps(text, scan_text(text, kinds, ScanScope::Text, Vec::new()).found);
        let found: Vec<_> = found.iter().map(|one| (one.kind, &text[one.start..one.end])).collect();
        assert_eq!(found, expected, "{text}");
    };
    let card = "4532276644577020";
    check(
        &format!("https://x.example/pay?card={card}&ok=1"),
        &[(SensitiveKind::Card, card)],
    );
    check(
        &format!("https://x.example/cards/{card}"),
        &[(SensitiveKind::Card, card)],
    );
    let mail = "ann.lee@mail.example";
    check(
        &format!("https://x.example/users/{mail}/edit"),
        &[(SensitiveKind::Email, mail)],
    );
    check(
        &format!("https://x.example/?to={mail}&n=2"),
        &[(SensitiveKind::Email, mail)],
    );
    check(
        "https://x.example/?phone=5550199&name=Ann&zip=90210",
        &[(SensitiveKind::Phone, "5550199"), (SensitiveKind::Name, "Ann")],
    );
    for text in [
        "https://medium.com/@ann.lee/p https://unpkg.com/react@18.2.0/umd/react.js https://cdn.example/vue@next.min.js",
        "https://x.example/1763112345000200/p?id=1234567890123456&t=1763112345&tel=1 ssh://git@github.com/a/b.git",
        "https://x.example/?city=Berlin&company=Acme&page=2&name=react",
    ] {
        check(text, &[]);
    }
}

#[test]
fn a_name_behind_an_assignment_is_hidden_whole() {
    let check = |text: &str, expected: &[&str]| {
        let found = resolve_overlaps(
            text,
            scan_text(text, SensitiveKinds::all(), ScanScope::Text, Vec::new()).found,
        );
        let names = found
            .iter()
            .filter(|one| matches!(one.kind, SensitiveKind::Name | SensitiveKind::Place));
        let found: Vec<_> = names.map(|one| &text[one.start..one.end]).collect();
        assert_eq!(found, expected, "{text}");
    };
    check("name=Ann Miller", &["Ann Miller"]);
    check("INFO customer=Ann de Miller id=4", &["Ann de Miller"]);
    check("name=Xyzzy Miller email=a@b.example", &["Xyzzy Miller"]);
    check("name=Ann plan=Pro", &["Ann"]);
    check("Author: Xyzzy Plugh <xyzzy@example.com>", &["Xyzzy Plugh"]);
    check(
        "name=React Native version=0.7\nname=Visual Studio\nname=Baker Street Books phone=5550199",
        &[],
    );
    check(
        "Author: dependabot[bot] <49699333+dependabot[bot]@users.noreply.example.com>",
        &[],
    );
}

#[test]
fn what_stands_behind_a_point_is_no_card() {
    check("0.4532276644577020", &[]);
    check("[0.4532276644577020,17.4532276644577020]", &[]);
    one("no. 4532276644577020.", SensitiveKind::Card, "4532276644577020");
    one("4532.2766.4457.7020", SensitiveKind::Card, "4532.2766.4457.7020");
}

#[test]
fn cards_are_checked_whatever_stands_between() {
    for written in [
        "4532276644577020",
        "4532 2766 4457 7020",
        "4532-2766-4457-7020",
        "4532\u{a0}2766\u{a0}4457\u{a0}7020",
        "4532\u{2009}2766\u{2009}4457\u{2009}7020",
        "4532\u{2011}2766\u{2011}4457\u{2011}7020",
        "3403 767927 48116",
        "676222165679",
        "213176828496175",
    ] {
        one(&format!("paid with {written} today"), SensitiveKind::Card, written);
    }
    check("4532276644577021 and 1234567890123456 and x4532276644577020y", &[]);
    one("card 060400000000", SensitiveKind::Card, "060400000000");
}

#[test]
fn cards_are_found_grouped_in_any_way_and_over_a_line_break() {
    for written in [
        "4 5 3 2 2 7 6 6 4 4 5 7 7 0 2 0",
        "45 32 27 66 44 57 70 20",
        "45322766 44577020",
        "45322 76644 57702 0",
        "4532 2766\n4457 7020",
        "45322766\n44577020",
        "4532-2766-\r\n  4457-7020",
        "4532 27\n66 4457 7020",
        "4532276644\n577020",
    ] {
        one(&format!("it is {written}, she said"), SensitiveKind::Card, written);
    }
    for alone in [
        "4532 2766\n4457 7020",
        "4532276644\n577020",
        "> 4532 2766 4457\n> 7020\n",
    ] {
        let card = alone.trim_matches(['>', ' ', '\n']);
        one(alone, SensitiveKind::Card, card);
    }
    check("123\n4532276644\n577020\n456 and 12\n4532 2766\n4457 7020\n13", &[]);
    one(
        "card 453 227 664 457 702 0",
        SensitiveKind::Card,
        "453 227 664 457 702 0",
    );
    check("it is 453 227 664 457 702 0 then", &[]);
    check("4532\n2766\n4457\n7020 and 4532 2766\n4457 7021", &[]);
    check("45322766\n44577020\n", &[]);
    check("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18", &[]);
}

#[test]
fn accounts_are_checked_in_any_case_and_grouping() {
    for written in [
        "GB82WEST12345698765432",
        "gb82west12345698765432",
        "GB82 WEST 1234 5698 7654 32",
        "DE89 3704 0044 0532 0130 00",
    ] {
        one(&format!("to {written}."), SensitiveKind::Iban, written);
    }
    check(
        "GB83WEST12345698765432 GB82WEST1234569876543 XX82WEST12345698765432",
        &[],
    );
}

#[test]
fn addresses_of_machines() {
    one("from 58.74.121.78 blocked", SensitiveKind::Ip, "58.74.121.78");
    one(
        "host 2001:db8:85a3:0:0:8a2e:370:7334, up",
        SensitiveKind::Ip,
        "2001:db8:85a3:0:0:8a2e:370:7334",
    );
    one(
        "at fe80::1ff:fe23:4567:890a.",
        SensitiveKind::Ip,
        "fe80::1ff:fe23:4567:890a",
    );
    one("::ffff:192.0.2.128", SensitiveKind::Ip, "::ffff:192.0.2.128");
    one("00:1A:2b:3c:4d:5e", SensitiveKind::Mac, "00:1A:2b:3c:4d:5e");
    one("00-1A-2B-3C-4D-5E", SensitiveKind::Mac, "00-1A-2B-3C-4D-5E");
    one("001a.2b3c.4d5e", SensitiveKind::Mac, "001a.2b3c.4d5e");
    check(
        "version 1.2.3.4, Chrome/120.0.0.0, 127.0.0.1, 0.0.0.0, 255.255.255.0, 300.1.1.1, std::mem::swap, 12:30:45, a::b, ::1",
        &[],
    );
}

#[test]
fn telephone_numbers_in_the_forms_of_many_countries() {
    for written in [
        "+41 (0)85 806 98 67",
        "+1-984-182-0190",
        "+447700 208 815",
        "+447700677662",
        "001-518-640-0854x0135",
        "(898)666-3621x0135",
        "(07) 5331 0577",
        "(71) 4233-6306",
        "201-948-1927",
        "930.167.3943",
        "01.84.17.61.18",
        "027 896 92 86",
        "1-800-555-0199 ext. 12",
    ] {
        one(&format!("It is {written}, she said"), SensitiveKind::Phone, written);
    }
    for written in [
        "78 651 450",
        "451 5986",
        "60-56-85-91",
        "3660170548",
        "61 51 81",
        "9472 7916",
        "99 668472",
    ] {
        one(
            &format!("Can someone call me on {written}?"),
            SensitiveKind::Phone,
            written,
        );
        one(&format!("{written} fax"), SensitiveKind::Phone, written);
        check(&format!("It was {written} then"), &[]);
    }
    check(
        "arXiv 2106.12345, 2012-10-01 00:46:43, 1/2/1999, -122.4194, 1700000000000, $1 234 567, 3.14159265",
        &[],
    );
}

#[test]
fn social_security_numbers() {
    one("Here's my SSN: 403-57-9558", SensitiveKind::Ssn, "403-57-9558");
    one("it is 403 57 9558.", SensitiveKind::Ssn, "403 57 9558");
    one("SSN 403579558", SensitiveKind::Ssn, "403579558");
    check(
        "000-12-3456 666-12-3456 403-00-9558 403-57-0000 2270-66-1551 403579558",
        &[],
    );
}

#[test]
fn dates_of_birth_only_where_birth_is_spoken_of() {
    one("She was born on 12/27/1986.", SensitiveKind::BirthDate, "12/27/1986");
    one("DOB: 1986-12-27", SensitiveKind::BirthDate, "1986-12-27");
    check("The meeting on 12/27/1986 was long", &[]);
}

#[test]
fn national_numbers_with_a_form_or_a_date_are_found_anywhere() {
    for written in [
        "529.982.247-25",
        "756.9217.0769.85",
        "85.07.30-033.28",
        "811218-9876",
        "070761-4285",
        "710319/2745",
        "2 95 10 99 126 111 93",
        "2341 2341 2346",
        "20-05536168-2",
        "12.531.909-2",
        "15108695088",
        "44051401359",
        "36805280109",
        "1630615123457",
        "7503305044089",
        "360426199101010071",
        "311280-888Y",
        "54362315K",
        "X2482300W",
        "RCCMNL83S18D969H",
        "AB123456C",
        "6433435F",
        "S1234567D",
        "A123456(3)",
        "BOXW310820HNERXN09",
        "ACUPA7085R",
        "880101-1234567",
    ] {
        one(
            &format!("the number {written} it is"),
            SensitiveKind::NationalId,
            written,
        );
    }
}

#[test]
fn national_numbers_with_only_a_checksum_need_a_word() {
    for (word, written) in [
        ("BSN", "111222333"),
        ("IdNr", "36574261809"),
        ("NHS", "9434765870"),
        ("kimlik", "17291716060"),
        ("OIB", "33392005961"),
        ("NIF", "501964843"),
        ("TFN", "123456782"),
        ("EGN", "7523169263"),
        ("SIN", "123-456-782"),
        ("tax ID", "36 574 261 809"),
    ] {
        one(&format!("{word} {written}"), SensitiveKind::NationalId, written);
        check(&format!("count {written}"), &[]);
    }
    check(
        "529.982.247-26 756.9217.0769.86 811218-9875 54362315L RCCMNL83S18D969I GB123456C",
        &[],
    );
}

#[test]
fn values_after_a_label_are_found_by_it() {
    one("Name: Victoria Bruun\nrest", SensitiveKind::Name, "Victoria Bruun");
    one("**Phone:**\n 51 516 33", SensitiveKind::Phone, "51 516 33");
    one("{\"last_name\": \"o'brien\"}", SensitiveKind::Name, "o'brien");
    one("{\"ssn\": 403579558, \"x\": 1}", SensitiveKind::Ssn, "403579558");
    one("Address: 12 Main Street", SensitiveKind::Address, "12 Main Street");
    check(
        "name: The name of the file\nlocation: city name\naddress: where it goes\npassword: your own",
        &[],
    );
}

#[test]
fn what_programs_print_of_their_values_is_found_by_its_keys() {
    let pair = [(SensitiveKind::Name, "Ann Lee"), (SensitiveKind::Phone, "78 651 450")];
    for text in [
        "{ name: 'Ann Lee', phone: '78 651 450' }",
        "[\n  {\n    id: 1,\n    name: 'Ann Lee',\n    phone: '78 651 450'\n  }\n]",
        "{'name': 'Ann Lee', 'phone': '78 651 450'}",
        "Customer(name='Ann Lee', phone='78 651 450')",
        "Customer { name: 'Ann Lee', phone: '78 651 450' }",
        "Map(2) { 'name' => 'Ann Lee', 'phone' => '78 651 450' }",
        "name: \"Ann Lee\"\nphone: \"78 651 450\"\n",
        "{\"name\" : \"Ann Lee\", \"phone\" : \"78 651 450\"}",
        "\"{\\\"name\\\":\\\"Ann Lee\\\",\\\"phone\\\":\\\"78 651 450\\\"}\"",
    ] {
        check(text, &pair);
    }
    one(
        "{\"id\":17,\"name\":\"maria garcia\"}",
        SensitiveKind::Name,
        "maria garcia",
    );
    one("{ lastName: \"O'Brien\" }", SensitiveKind::Name, "O'Brien");
    one(
        "{ lastName: 'O\\'Brien \"x\"' }",
        SensitiveKind::Name,
        "O\\'Brien \"x\"",
    );
    one("{ id: 1, zip: 90210 }", SensitiveKind::Address, "90210");
    one(
        "{ dob: 1980-01-01T00:00:00.000Z, n: 1 }",
        SensitiveKind::BirthDate,
        "1980-01-01T00:00:00.000Z",
    );
    one(
        "P(born=datetime.date(1980, 1, 1), n=2)",
        SensitiveKind::BirthDate,
        "datetime.date(1980, 1, 1)",
    );
    one(
        "{ password: 'correct horse', user: 4 }",
        SensitiveKind::Secret,
        "correct horse",
    );
    one("{ cvv: 123 }", SensitiveKind::Secret, "123");
    one("<person city=\"oulu\"/>", SensitiveKind::Place, "oulu");
    check(
        "{ name: 'Blue Chair', sku: 'A1' } {\"files\": [{\"name\": \"Report\"}, {\"name\": \"Ann\"}]} name: 'build and test'\n<a name=\"top\">",
        &[],
    );
    check(
        "{ password: 'The password to use' } { secret: '<your secret>' } { zip: Number, phone: string }",
        &[],
    );
}

#[test]
fn a_number_in_a_structure_is_what_its_own_key_says() {
    check(
        "{\"phone\": null, \"amount_cents\": 1299900, \"id\": 12345678, \"call\": true}",
        &[],
    );
    check("{ phone: null, amount_cents: 1299900, id: '12345678' }", &[]);
    one("{\"id\": 1, \"desk_phone\": 1299900}", SensitiveKind::Phone, "1299900");
    one("He said, his phone: 1299900", SensitiveKind::Phone, "1299900");
}

#[test]
fn a_name_on_a_line_needs_a_person_around_or_the_dictionary() {
    check("name: React Native\nversion: 18.2.0\n", &[]);
    check("Name: Build And Deploy\nStatus: success", &[]);
    check(
        "Name: Xyzzy Plugh\nEmail: x@example.com",
        &[
            (SensitiveKind::Name, "Xyzzy Plugh"),
            (SensitiveKind::Email, "x@example.com"),
        ],
    );
    one("Name: Maria Garcia\nrest", SensitiveKind::Name, "Maria Garcia");
}

#[test]
fn values_right_behind_an_assignment_are_found_by_its_key() {
    one("phone=0301234567", SensitiveKind::Phone, "0301234567");
    one("id=4 phone=0301234567 n=2", SensitiveKind::Phone, "0301234567");
    one("GET /x?zip=90210&n=1", SensitiveKind::Address, "90210");
    one("user_id=4, first_name=Ann, n=2", SensitiveKind::Name, "Ann");
    check(
        "phone=x tel==12345678 name=react customer=customer_id mobile=12 passport=^0.6.0",
        &[],
    );
}

#[test]
fn what_stands_between_tags_is_found_by_them() {
    one("<phone>0301234567</phone>", SensitiveKind::Phone, "0301234567");
    one(
        "<x:lastName a=\"1\">o'brien</x:lastName>",
        SensitiveKind::Name,
        "o'brien",
    );
    check(
        "<contact><name>xyzzy</name><email>x@example.com</email></contact>",
        &[(SensitiveKind::Name, "xyzzy"), (SensitiveKind::Email, "x@example.com")],
    );
    check("<package><name>react</name><version>18.2.0</version></package>", &[]);
    check("<name>\n<b>x</b></name> a > b <phone>none</phone>", &[]);
}

#[test]
fn national_telephone_numbers_of_the_largest_countries_are_found_in_prose() {
    for written in [
        "98765 43210",
        "138 1234 5678",
        "(201) 555-0123",
        "0812-3456-7890",
        "0300-1234567",
        "0803 123 4567",
        "11 91234-5678",
        "(11) 91234-5678",
        "01712-345678",
        "8 (912) 345-67-89",
        "8-912-345-67-89",
        "55 1234 5678",
        "0171 1234567",
    ] {
        one(
            &format!("Du erreichst mich: {written}, ab acht"),
            SensitiveKind::Phone,
            written,
        );
    }
    check(
        "From 12345 67890 to 10 20 30, 55 12 34, 8 100 200 30 or 2019-2020\n71234 80123\n98765 43210\n55 1234 5678",
        &[],
    );
}

#[test]
fn only_wanted_kinds_are_found() {
    let kinds: SensitiveKinds = [SensitiveKind::Card].into_iter().collect();
    let text = "ann@example.com 4532276644577020";
    let found = scan_text(text, kinds, ScanScope::Text, Vec::new()).found;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, SensitiveKind::Card);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_address_of_version_six_is_found(parts in proptest::array::uniform8(0x10_u16..), zeros in 0..6_usize) {
        let mut parts = parts;
        parts[1..=zeros].fill(0);
        let address = std::net::Ipv6Addr::from(parts).to_string();
        // Some spellings have no digit at all, and are words as well.
        proptest::prop_assume!(address.bytes().any(|byte| byte.is_ascii_digit()));
        one(&format!("from {address} today"), SensitiveKind::Ip, &address);
    }

    #[test]
    fn every_address_of_version_four_is_found(parts in proptest::array::uniform4(1..=254_u8)) {
        proptest::prop_assume!(parts[0] != 127);
        let address = std::net::Ipv4Addr::from(parts).to_string();
        one(&format!("from {address}: today"), SensitiveKind::Ip, &address);
        one(&format!("from {address}."), SensitiveKind::Ip, &address);
    }
}

#[test]
fn a_slash_between_spaces_parts_an_area_code() {
    one("Tel.: 030 / 90 18 20", SensitiveKind::Phone, "030 / 90 18 20");
    one("Tel. 030 / 901820", SensitiveKind::Phone, "030 / 901820");
    check("calls 1000 / 2000 today, 10 / 20 done, phone 50 / 100", &[]);
}
