//! Prefixes of tokens that identify their issuer, with the alphabet of the rest.

/// The alphabet of a token.
#[derive(Debug, Clone, Copy)]
pub(super) enum TokenAlphabet {
    /// Upper-case letters and digits.
    Upper,
    Hex,
    Alnum,
    /// Letters, digits, `_` and `-`.
    Wide,
    /// Letters, digits, `_`, `-` and `.`.
    Dotted,
    /// Letters, digits, `_`, `-`, `.`, `+`, `/`, `=` and `~`.
    Base64,
}

impl TokenAlphabet {
    pub(super) fn contains(self, byte: u8) -> bool {
        match self {
            TokenAlphabet::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            TokenAlphabet::Hex => byte.is_ascii_hexdigit(),
            TokenAlphabet::Alnum => byte.is_ascii_alphanumeric(),
            TokenAlphabet::Wide => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            TokenAlphabet::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            TokenAlphabet::Base64 => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'~')
            }
        }
    }
}

/// The alphabet after a prefix, its least length, and the prefixes.
pub(super) const TOKEN_PREFIXES: [(TokenAlphabet, usize, &str); 23] = [
    (TokenAlphabet::Upper, 16, "AKIA ASIA ABIA ACCA A3T"),
    (TokenAlphabet::Upper, 24, "NRAK API-"),
    (
        TokenAlphabet::Hex,
        32,
        "shpat_ shpss_ shpca_ shppa_ dapi key- pubkey- SK rdme_f",
    ),
    (TokenAlphabet::Hex, 34, "live_ test_"),
    (
        TokenAlphabet::Hex,
        40,
        "dop_v1_ doo_v1_ dor_v1_ sntryu_ rubygems_ sbp_ sk-or-v1- sgp_ pul-",
    ),
    (
        TokenAlphabet::Alnum,
        10,
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_",
    ),
    (TokenAlphabet::Alnum, 16, "sm_aat_ sm_pat_ sm_sat_"),
    (TokenAlphabet::Alnum, 20, "sk- LTAI YC"),
    (
        TokenAlphabet::Alnum,
        30,
        "lin_api_ dckr_oat_ EAACEdEose0cBA pnu_ ico- dp.ct. dp.st. p8e-",
    ),
    (TokenAlphabet::Alnum, 36, "ghp_ gho_ ghu_ ghs_ ghr_ npm_ 4b1d"),
    (
        TokenAlphabet::Alnum,
        40,
        "gsk_ pplx- xai- dp.pt. secret_ ntn_ shippo_live_ shippo_test_ CLOJARS_ r8_ cmVmd",
    ),
    (
        TokenAlphabet::Alnum,
        50,
        "AGE-SECRET-KEY-1 EZAK EZTK EAAM EAAC EAAA AKCp AAAAAAAAAAAAAAAAAAAAAA",
    ),
    (TokenAlphabet::Wide, 12, "FLWSECK_TEST- FLWPUBK_TEST-"),
    (
        TokenAlphabet::Wide,
        19,
        "NRJS- NRII- gldt- glrt- glcbt- glsoat- glft- glimt- glffct- GR1348941 _gitlab_session=",
    ),
    (
        TokenAlphabet::Wide,
        20,
        "xoxb- xoxp- xoxe- xoxa- xoxr- xoxs- xoxo- xapp- xoxe.xoxb- xoxe.xoxp- sk-ant- sk-proj-",
    ),
    (
        TokenAlphabet::Wide,
        20,
        "sk-svcacct- sk-admin- dckr_pat_ tskey- sq0atp- sq0csp-",
    ),
    (
        TokenAlphabet::Wide,
        28,
        "GOCSPX- figd_ glsa_ ya29. AIza s-s4t2ud- s-s4t2af- A3-",
    ),
    (
        TokenAlphabet::Wide,
        36,
        "github_pat_ pat-na1- glptt- glagent- gloas- hvs. PMAK- tk-us- fo1_ nvapi-",
    ),
    (
        TokenAlphabet::Wide,
        36,
        "live_pub_ test_pub_ access-sandbox- access-production- access-development-",
    ),
    (TokenAlphabet::Wide, 50, "pypi-AgEI hvb. xkeysib- v1.0-"),
    (
        TokenAlphabet::Dotted,
        20,
        "glpat- rdme_ pat. sat. t1. AQVN dt0c01. authress_ scauth_",
    ),
    (
        TokenAlphabet::Base64,
        30,
        "whsec_ glc_ sha256~ HRKU-AA pscale_tkn_ pscale_pw_ pscale_oauth_ dnkey- fio-u- duffel_test_ duffel_live_",
    ),
    (
        TokenAlphabet::Base64,
        39,
        "sntrys_ ops_eyJ ATATT3 FlyV1 fm1r_ fm1a_ fm2_ ABSK bedrock-api-key- eyJrIjoi sqp_ squ_ sqa_ tfp_ SG. pk.eyJ",
    ),
];
