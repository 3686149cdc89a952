//! Prefixes of tokens that identify their issuer, with the alphabet of the rest.

/// The alphabet of a token.
#[derive(Debug, Clone, Copy)]
pub(super) enum Letters {
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

impl Letters {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Letters::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Letters::Hex => byte.is_ascii_hexdigit(),
            Letters::Alnum => byte.is_ascii_alphanumeric(),
            Letters::Wide => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Letters::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Letters::Base64 => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'~')
            }
        }
    }
}

/// The alphabet after a prefix, its least length, and the prefixes.
pub(super) const TOKENS: [(Letters, usize, &str); 23] = [
    (Letters::Upper, 16, "AKIA ASIA ABIA ACCA A3T"),
    (Letters::Upper, 24, "NRAK API-"),
    (
        Letters::Hex,
        32,
        "shpat_ shpss_ shpca_ shppa_ dapi key- pubkey- SK rdme_f",
    ),
    (Letters::Hex, 34, "live_ test_"),
    (
        Letters::Hex,
        40,
        "dop_v1_ doo_v1_ dor_v1_ sntryu_ rubygems_ sbp_ sk-or-v1- sgp_ pul-",
    ),
    (
        Letters::Alnum,
        10,
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_",
    ),
    (Letters::Alnum, 16, "sm_aat_ sm_pat_ sm_sat_"),
    (Letters::Alnum, 20, "sk- LTAI YC"),
    (
        Letters::Alnum,
        30,
        "lin_api_ dckr_oat_ EAACEdEose0cBA pnu_ ico- dp.ct. dp.st. p8e-",
    ),
    (Letters::Alnum, 36, "ghp_ gho_ ghu_ ghs_ ghr_ npm_ 4b1d"),
    (
        Letters::Alnum,
        40,
        "gsk_ pplx- xai- dp.pt. secret_ ntn_ shippo_live_ shippo_test_ CLOJARS_ r8_ cmVmd",
    ),
    (
        Letters::Alnum,
        50,
        "AGE-SECRET-KEY-1 EZAK EZTK EAAM EAAC EAAA AKCp AAAAAAAAAAAAAAAAAAAAAA",
    ),
    (Letters::Wide, 12, "FLWSECK_TEST- FLWPUBK_TEST-"),
    (
        Letters::Wide,
        19,
        "NRJS- NRII- gldt- glrt- glcbt- glsoat- glft- glimt- glffct- GR1348941 _gitlab_session=",
    ),
    (
        Letters::Wide,
        20,
        "xoxb- xoxp- xoxe- xoxa- xoxr- xoxs- xoxo- xapp- xoxe.xoxb- xoxe.xoxp- sk-ant- sk-proj-",
    ),
    (
        Letters::Wide,
        20,
        "sk-svcacct- sk-admin- dckr_pat_ tskey- sq0atp- sq0csp-",
    ),
    (
        Letters::Wide,
        28,
        "GOCSPX- figd_ glsa_ ya29. AIza s-s4t2ud- s-s4t2af- A3-",
    ),
    (
        Letters::Wide,
        36,
        "github_pat_ pat-na1- glptt- glagent- gloas- hvs. PMAK- tk-us- fo1_ nvapi-",
    ),
    (
        Letters::Wide,
        36,
        "live_pub_ test_pub_ access-sandbox- access-production- access-development-",
    ),
    (Letters::Wide, 50, "pypi-AgEI hvb. xkeysib- v1.0-"),
    (
        Letters::Dotted,
        20,
        "glpat- rdme_ pat. sat. t1. AQVN dt0c01. authress_ scauth_",
    ),
    (
        Letters::Base64,
        30,
        "whsec_ glc_ sha256~ HRKU-AA pscale_tkn_ pscale_pw_ pscale_oauth_ dnkey- fio-u- duffel_test_ duffel_live_",
    ),
    (
        Letters::Base64,
        39,
        "sntrys_ ops_eyJ ATATT3 FlyV1 fm1r_ fm1a_ fm2_ ABSK bedrock-api-key- eyJrIjoi sqp_ squ_ sqa_ tfp_ SG. pk.eyJ",
    ),
];
