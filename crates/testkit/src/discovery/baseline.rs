//! A plain BM25 baseline over all fields as one text. Words are split at case changes and underscores, Han characters into pairs; a short
//! list of stop words and light suffixes are removed; the name counts twice.

use std::collections::HashMap;

use ringfence_catalog::{Catalog, Tool};
use serde_json::Value;

const K1: f64 = 1.2;
const B: f64 = 0.75;
const STOP_WORDS: &str = "a an and are as at be by do for from get has have how i if in into is it its me my of on or our so that the \
their them then there these this those to use used using was we what when where which who will with you your";

/// A BM25 index of a catalog.
#[derive(Debug)]
pub struct PlainBm25 {
    postings: HashMap<String, Vec<(usize, f64)>>,
    tools: usize,
}

impl PlainBm25 {
    /// Builds the index of `catalog`.
    pub fn new(catalog: &Catalog) -> PlainBm25 {
        let texts: Vec<Vec<String>> = catalog.tools().iter().map(|tool| terms(&tool_text(tool))).collect();
        let average = to_float(texts.iter().map(Vec::len).sum()) / to_float(texts.len()).max(1.0);
        let mut postings: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        for (place, words) in texts.iter().enumerate() {
            let long = K1 * (1.0 - B + B * to_float(words.len()) / average);
            let mut counts: HashMap<&str, f64> = HashMap::new();
            for word in words {
                *counts.entry(word).or_default() += 1.0;
            }
            for (word, count) in counts {
                let worth = count * (K1 + 1.0) / (count + long);
                postings.entry(word.to_owned()).or_default().push((place, worth));
            }
        }
        PlainBm25 {
            postings,
            tools: texts.len(),
        }
    }

    /// The positions of tools for one question, best first.
    pub fn rank(&self, question: &str) -> Vec<usize> {
        let mut scores = vec![0.0; self.tools];
        for word in terms(question) {
            let list = self.postings.get(&word).map(Vec::as_slice).unwrap_or_default();
            let some = to_float(list.len());
            let idf = (1.0 + (to_float(self.tools) - some + 0.5) / (some + 0.5)).ln();
            for (place, worth) in list {
                scores[*place] += idf * worth;
            }
        }
        let mut ranked: Vec<usize> = (0..self.tools).filter(|place| scores[*place] > 0.0).collect();
        ranked.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]).then(one.cmp(other)));
        ranked
    }
}

/// Merges rankings in turns, up to `most` tools in all.
pub fn interleave(rankings: &[Vec<usize>], most: usize) -> Vec<usize> {
    let mut taken = Vec::new();
    let mut rankings: Vec<_> = rankings.iter().map(|ranking| ranking.iter()).collect();
    loop {
        let before = taken.len();
        for ranking in &mut rankings {
            if taken.len() == most {
                return taken;
            }
            if let Some(tool) = ranking.find(|tool| !taken.contains(*tool)) {
                taken.push(*tool);
            }
        }
        if taken.len() == before {
            return taken;
        }
    }
}

fn tool_text(tool: &Tool) -> String {
    let definition = &tool.definition;
    let mut text = format!(
        "{} {} {} {}",
        tool.server(),
        tool.short_name(),
        tool.short_name(),
        definition.description
    );
    for (name, property) in definition
        .input
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let said = property.get("description").and_then(Value::as_str).unwrap_or_default();
        text.extend([" ", name, " ", said]);
    }
    text
}

fn terms(text: &str) -> Vec<String> {
    let (mut terms, mut word, mut before) = (Vec::new(), String::new(), ' ');
    for c in text.chars().chain(std::iter::once(' ')) {
        let han = |c: char| ('\u{3400}'..='\u{9fff}').contains(&c);
        let ends = !c.is_alphanumeric() || han(c) || c.is_uppercase() && before.is_lowercase();
        if ends && !word.is_empty() {
            terms.push(std::mem::take(&mut word));
        }
        if han(c) && han(before) {
            terms.push([before, c].iter().collect());
        } else if c.is_alphanumeric() && !han(c) {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    terms.retain(|word| !STOP_WORDS.split(' ').any(|stop| stop == word));
    terms.iter().map(|word| stem_word(word)).collect()
}

/// A word without its most common endings.
fn stem_word(word: &str) -> String {
    for (suffix, instead) in [("ies", "y"), ("ing", ""), ("es", ""), ("ed", ""), ("s", "")] {
        if let Some(stem) = word.strip_suffix(suffix).filter(|stem| stem.len() > 2) {
            return format!("{stem}{instead}");
        }
    }
    word.to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "counts of tools and words are small")]
fn to_float(count: usize) -> f64 {
    count as f64
}
