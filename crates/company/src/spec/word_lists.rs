//! The word lists from which names and texts are built. The people do not exist; addresses use domains reserved for
//! examples.

/// The words that can fill a slot of a phrase.
pub(crate) fn words_for_slot(slot: &str) -> &'static [&'static str] {
    match slot {
        "first" => FIRST_NAMES,
        "last" => LAST_NAMES,
        "colour" => COLOURS,
        "animal" => ANIMALS,
        "trade" => TRADES,
        "town" => TOWNS,
        "street" => STREETS,
        "item" => ITEMS,
        "part" => PARTS,
        "fault" => ISSUE_FAULTS,
        "place" => ISSUE_PLACES,
        "topic" => TOPICS,
        "quarter" => QUARTERS,
        "digit" => DIGITS,
        _ => &[],
    }
}

pub(crate) const COUNTRIES: &[&str] = &["DE", "FR", "NL", "IT", "ES", "AT", "SE", "PL", "BE", "DK", "PT", "FI"];

const FIRST_NAMES: &[&str] = &[
    "Abela", "Bruno", "Cosima", "Dario", "Elvi", "Fenna", "Gustaf", "Hedda", "Ivo", "Jorun", "Kaspar", "Liv", "Mirko",
    "Nele", "Oskar", "Pia", "Quirin", "Ronja", "Silas", "Tilda", "Ulla", "Vito", "Wanda", "Xaver", "Ylva", "Zeno",
];
const LAST_NAMES: &[&str] = &[
    "Ackerfeld",
    "Birkenhain",
    "Castellop",
    "Dunkelmoor",
    "Ebbestad",
    "Falkenrode",
    "Grunewater",
    "Halmbeck",
    "Ivarsdorp",
    "Jellinghus",
    "Kettlewind",
    "Lindqvale",
    "Moorhagen",
    "Nordbruk",
    "Osterveld",
    "Pellegrove",
    "Quistorm",
    "Rosenfjell",
    "Silberau",
    "Tannwald",
    "Uferling",
    "Vandermist",
    "Wolkenried",
    "Zandhoven",
];
const COLOURS: &[&str] = &[
    "Amber", "Azure", "Birch", "Cobalt", "Copper", "Coral", "Crimson", "Hazel", "Indigo", "Ivory", "Jade", "Maroon",
    "Ochre", "Olive", "Russet", "Saffron", "Scarlet", "Silver", "Teal", "Umber",
];
const ANIMALS: &[&str] = &[
    "Badger", "Bittern", "Curlew", "Dormouse", "Egret", "Falcon", "Gannet", "Heron", "Ibex", "Jackdaw", "Kestrel",
    "Lapwing", "Marten", "Nuthatch", "Otter", "Plover", "Raven", "Siskin", "Teal", "Wren",
];
const TRADES: &[&str] = &[
    "Trading",
    "Works",
    "Foods",
    "Studio",
    "Logistics",
    "Interiors",
    "Books",
    "Bicycles",
    "Gardens",
    "Instruments",
];
const TOWNS: &[&str] = &[
    "Northhaven",
    "Eastmere",
    "Stillwater",
    "Lindenau",
    "Port Ember",
    "Vallenza",
    "Brackwell",
    "Osterby",
    "Quillon",
    "Montrevel",
    "Sandvika Ness",
    "Halberg",
];
const STREETS: &[&str] = &[
    "Mill Lane",
    "Harbour Street",
    "Station Road",
    "Orchard Way",
    "Foundry Row",
    "Chapel Hill",
    "Canal Walk",
    "Long Acre",
];
const ITEMS: &[&str] = &[
    "desk lamp",
    "standing desk",
    "office chair",
    "bookshelf",
    "notebook set",
    "label printer",
    "thermos",
    "backpack",
    "whiteboard",
    "monitor arm",
    "keyboard",
    "headset",
    "filing cabinet",
    "coat rack",
    "plant pot",
    "wall clock",
];
const PARTS: &[&str] = &[
    "checkout",
    "invoice export",
    "search page",
    "mobile app",
    "sign-in",
    "stock report",
    "address form",
    "price list",
    "return label",
    "order history",
    "newsletter",
    "calendar view",
    "file upload",
    "payment page",
];
const ISSUE_FAULTS: &[&str] = &[
    "shows the wrong total",
    "times out",
    "loses the last entry",
    "rejects valid input",
    "is slow after noon",
    "shows an empty page",
    "sends the mail twice",
    "forgets the language",
    "rounds differently",
    "hides new records",
];
const ISSUE_PLACES: &[&str] = &[
    "on tablets",
    "for large orders",
    "in the test shop",
    "after the update",
    "with two tabs open",
    "for new customers",
];
const TOPICS: &[&str] = &[
    "onboarding",
    "pricing",
    "supplier review",
    "security",
    "travel",
    "brand",
    "hiring",
    "warehouse safety",
    "budget",
    "roadmap",
    "customer feedback",
    "release",
    "data retention",
    "energy use",
];
const QUARTERS: &[&str] = &["2025 Q1", "2025 Q2", "2025 Q3", "2025 Q4", "2026 Q1", "2026 Q2"];
const DIGITS: &[&str] = &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
