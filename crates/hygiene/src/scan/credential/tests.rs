//! Tests of secrets that running text gives to a key, a header or an option.

use crate::detector::{Detector, DetectorConfig, NameDetection, SecretDetection};
use crate::kind::{SensitiveKind, SensitiveKinds};

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let words = ["email", "phone", "card", "iban", "ssn", "name"];
    let kinds = words.into_iter().filter_map(SensitiveKinds::from_policy_name);
    let detector = Detector::new(&DetectorConfig {
        kinds: kinds.fold(SensitiveKinds::none(), SensitiveKinds::union),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    });
    let found = detector.find(text);
    let secrets = found.iter().filter(|one| one.kind == SensitiveKind::Secret);
    let secrets: Vec<_> = secrets.map(|one| &text[one.start..one.end]).collect();
    assert_eq!(secrets, expected, "{text}");
}

#[test]
fn fields_and_logins_of_addresses() {
    for (text, secret) in [
        ("https://app.example/login?user=x&password=hunter2", "hunter2"),
        ("GET /api?token=abc123def&x=1", "abc123def"),
        ("see https://x.example/?api_key=letmein&n=1.", "letmein"),
        ("https://x.example/cb#access_token=opensesame&state=1", "opensesame"),
        ("https://bob:hunter2@host.example/x", "hunter2"),
        ("postgres://bob:hunter2@db/x", "hunter2"),
        ("redis://:hunter2@cache:6379/0", "hunter2"),
        ("to https%3A%2F%2Fx.example%2F%3Fpassword%3Dhunter2", "hunter2"),
    ] {
        check(text, &[secret]);
    }
    check(
        "https://x.example/?page=2&name=react&sort=asc&key=abc&token=&secret=$TOKEN",
        &[],
    );
    check(
        "https://x.example/?api_key=YOUR_KEY&password=<password>&token=TOKEN",
        &[],
    );
    check(
        "https://${USER}:${PASSWORD}@host.example/x ssh://git@github.com/a/b.git",
        &[],
    );
}

#[test]
fn lines_of_an_environment() {
    for (text, secret) in [
        ("PASSWORD=hunter2", "hunter2"),
        ("DB_PASSWORD=letmein\n", "letmein"),
        ("export API_KEY=hunter2", "hunter2"),
        ("env SECRET=open-sesame run", "open-sesame"),
        ("CLIENT_SECRET=a,b;c&d", "a,b;c&d"),
        ("GITHUB_TOKEN=abcdef", "abcdef"),
        ("host=db user=bob password=hunter2 dbname=x", "hunter2"),
        ("user=bob password=letmein", "letmein"),
    ] {
        check(text, &[secret]);
    }
    for text in [
        "PASSWORD=$1\nTOKEN=${TOKEN:-x}\nSECRET=$(cat x)\nAPI_KEY=<your key>\nPASSWORD=changeme\nPASSWORD=PASSWORD",
        "DB_PASSWORD_FILE=/run/secrets/db GOOGLE_APPLICATION_CREDENTIALS=/etc/gcp/key.json",
        "connect(user, password=password, token=self.token, secret=get_secret(), api_key=os.environ[\"KEY\"])",
        "max_tokens=4096 token=4096 credentials=include password=None secret=true",
        "x.password=y.password; this.token=token; self.secret=secret",
    ] {
        check(text, &[]);
    }
}

#[test]
fn keys_of_lines_and_brackets() {
    for (text, secret) in [
        ("password: hunter2", "hunter2"),
        ("  db_password: hunter2  # old\n", "hunter2"),
        ("**Password:** hunter2", "hunter2"),
        ("{ password: hunter2 }", "hunter2"),
        ("user: bob, password: hunter2, port: 3", "hunter2"),
        ("POSTGRES_PASSWORD: pelican", "pelican"),
        ("username: bob\npassword: letmein\n", "letmein"),
        ("password = x9kq2m", "x9kq2m"),
    ] {
        check(text, &[secret]);
    }
    for text in [
        "password: string;\ntoken: string;\npassword: String,\nsecret: Uint8Array;\npin: u32",
        "interface Login { email: string; password: string; token?: string; secret: Option<String> }",
        "const token = getToken();\nconst password = process.env.DB_PASSWORD;\npassword = getpass.getpass()",
        "password: the one you chose\nPassword: required, at least 12 characters\npassword: 8 to 64 characters",
        "password: {{ db_password }}\npassword: !vault x\npassword: ${DB_PASSWORD}\npassword: *anchor\npassword: env:DB",
        "secret: db-credentials\nsecretName: web-tls\ntoken: 4096\npassword: bcrypt\npassword: sha256\nsecret: /run/secrets/x",
        "passwords: 12000\npin: 13\ncredentials: include\nfetch(url, { credentials: 'include' })",
        "use std::pin::Pin; Secret::new(text); password: self::Password",
        "Error: unexpected token: }\nToken: ident\nemail: string\npassword: string",
    ] {
        check(text, &[]);
    }
}

#[test]
fn passwords_in_the_middle_of_a_line() {
    for (text, secret) in [
        ("key of the service, password: hunter2x, and more", "hunter2x"),
        ("the key and the password: hunter2x", "hunter2x"),
        ("the key and the password: hunter2x, as agreed", "hunter2x"),
        ("12:01 INFO worker 3 starts with DB_PASSWORD: hunter2x", "hunter2x"),
        ("Ann's login is ann and her passphrase: c0rrect-horse", "c0rrect-horse"),
    ] {
        check(text, &[secret]);
    }
    let key =
        "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdEfGhIjKlMnAA";
    check(&format!("key {key} password: hunter2x, ?token=…"), &[key, "hunter2x"]);
    for text in [
        "rules for a new account password: 8-character words, sha256 and no spaces",
        "then it asks for the password: it's the one you chose, or the default",
        "checks of the login and the password: $DB_PASSWORD or <password>",
        "this sets the hash of the password: bcrypt, argon2id or pbkdf2",
        "see the page about passwords: 12 tips",
    ] {
        check(text, &[]);
    }
}

#[test]
fn headers() {
    for (text, secret) in [
        ("Authorization: Bearer abcdef", "abcdef"),
        ("> Authorization: Basic Ym9iOmh1", "Ym9iOmh1"),
        ("12:01 sent Authorization: Token 123abc", "123abc"),
        ("curl -H 'Authorization: Bearer abc' https://x.example", "abc"),
        ("curl -H \"X-Api-Key: hunter2\" https://x.example", "hunter2"),
        ("Cookie: a=b; c=d", "a=b; c=d"),
        ("< Set-Cookie: sid=abc; Path=/; HttpOnly", "sid=abc"),
        (
            "Proxy-Authorization: Digest username=\"a\", response=\"1f\"",
            "username=\"a\", response=\"1f\"",
        ),
    ] {
        check(text, &[secret]);
    }
    for text in [
        "Authorization: every request needs a role\nAuthorization: Bearer token required\nAuthorization: required",
        "curl -H \"Authorization: Bearer $TOKEN\" https://x\ncurl -H 'Authorization: Bearer <token>' https://x",
        "Authorization: Basic authentication is off\nAuthorization: Bearer YOUR_TOKEN",
        "Cookie policy: we use cookies. Cookie: a small file. Cookies: 12\nSet-Cookie: only on login",
        "Cookie: SameSite=Lax recommended",
    ] {
        check(text, &[]);
    }
}

#[test]
fn options_of_commands() {
    for (text, secret) in [
        ("curl -u bob:hunter2 https://x.example", "hunter2"),
        ("curl -s --user 'bob:hunter2' https://x.example", "hunter2"),
        ("curl --cookie \"sid=abc\" https://x.example", "sid=abc"),
        ("tool --password hunter2 --all", "hunter2"),
        ("tool --token=abc123 run", "abc123"),
        ("mysql -u root -phunter2 shop", "hunter2"),
        ("mysqldump -h db \\\n  -p'open sesame' shop", "open sesame"),
        ("sshpass -pletmein ssh bob@host", "letmein"),
    ] {
        check(text, &[secret]);
    }
    for text in [
        "tool login --user USER --password PASSWORD --token TOKEN",
        "with --password prompts for it; --token-file reads it; --password is required",
        "mkdir -parents; docker run -publish 80; mysql -p shop; mysql -pPASSWORD; mysql -p$PASS; mysql x\n ls -preserve",
        "docker run -u 1000:1000 -e PASSWORD=$PASSWORD img; git push -u origin main:main",
        "curl -u user:password https://x\ncurl -u \"$USER:$PASS\" https://x\ncurl -u \"user:<token>\" https://x",
    ] {
        check(text, &[]);
    }
}

#[test]
fn sentences() {
    for (text, secret) in [
        ("Your password is hunter2.", "hunter2"),
        ("the new passphrase is \"tr0ub4dor&3\", keep it", "tr0ub4dor&3"),
        ("Her PIN is 4711!", "4711"),
        ("Password is pa$$word", "pa$$word"),
    ] {
        check(text, &[secret]);
    }
    for text in [
        "The password is wrong. A password is required! Your password is 8-character or longer, the PIN is 4-digit",
        "a password is 12 characters; this password is sha256-hashed; the password is base64 here; a pin is set",
        "password is case-sensitive, password is user's own, the password is <password>, the password is $PASSWORD",
        "the pin is 13; the password is in /run/secrets/db; this is 4711; what is hunter2",
    ] {
        check(text, &[]);
    }
}

#[test]
fn blocks_variables_and_printed_structures() {
    for (text, secret) in [
        ("password: |\n  hunter2abc\n  second\nx: 1\n", "hunter2abc\n  second"),
        ("db_password: >-\n  hunter2abc\n", "hunter2abc"),
        ("db:\n  password: |2-  # old\n    letmein\n  port: 1\n", "letmein"),
        ("- password: >\n    hunter2abc\n  name: y\n", "hunter2abc"),
        ("- name: DB_PASSWORD\n  value: hunter2abc\n", "hunter2abc"),
        (
            "env:\n    - name: \"API_TOKEN\"\n      value: \"hunter2abc\"\n",
            "hunter2abc",
        ),
        ("- name: DB_PASSWORD\n  value: letmein\n", "letmein"),
        ("{Email:x Password:hunter2abc}\n", "hunter2abc"),
        ("user: &{Id:1 ApiKey:k3yk3yk3y Ok:true}", "k3yk3yk3y"),
    ] {
        check(text, &[secret]);
    }
    for text in [
        "password: |\nx: 1\n",
        "password: |\n  ${DB_PASSWORD}\n",
        "run: |\n  make test\nsteps: >-\n  one\n",
        "- name: LOG_LEVEL\n  value: debug1\n- name: DB_PASSWORD\n  valueFrom: x\n",
        "- name: DB_PASSWORD\n  value: $(DB_PASSWORD)\n",
        "a {b} Password:see below",
    ] {
        check(text, &[]);
    }
}
