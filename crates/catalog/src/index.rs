//! The search index of a catalog: the terms of each tool by field, with their weights.

use std::collections::HashMap;

use crate::actions::ToolEffect;
use crate::catalog::Catalog;
use crate::fields::{FIELD_COUNT, MAX_SPELLED_CHARS, SearchField, field_texts, truncate_bytes};
use crate::ranking_weights::{FIELD_WEIGHTS, LENGTH_NORMALISATION, SATURATION, WIDE_SCRIPT_LENGTH};
use crate::terms::{TermStemmer, for_each_gram, for_each_weighted_word, for_each_word};
use crate::tool::Tool;

/// A tool that contains a term: its index in the catalog and the weight of the term there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Posting {
    pub(crate) tool: u32,
    pub(crate) worth: f32,
}

/// Terms with their weights, in the order of terms.
pub(crate) type SparseVector = Vec<(u32, f32)>;

/// The search index of one catalog, built once and valid for that catalog only.
#[derive(Debug)]
pub struct SearchIndex {
    pub(crate) stems: TermStemmer,
    terms: HashMap<String, u32>,
    keys: HashMap<u64, u32>,
    words: Vec<Vec<Posting>>,
    grams: Vec<Vec<Posting>>,
    gram_idf: Vec<f32>,
    /// The term vectors of each tool, for comparing tools.
    pub(crate) sayings: Vec<ToolVectors>,
    /// The index of each tool's server.
    pub(crate) servers: Vec<u32>,
    /// The effect of each tool.
    pub(crate) effects: Vec<ToolEffect>,
    /// The stems of each tool's own name; `named` maps each stem back to its tools.
    pub(crate) names: Vec<Vec<String>>,
    named: HashMap<String, Vec<u32>>,
    pub(crate) fingerprint: [u8; 8],
    /// The average length of each field.
    average: [f32; FIELD_COUNT],
}

/// The terms of a tool without those of its server, as vectors of unit length.
#[derive(Debug, Default)]
pub(crate) struct ToolVectors {
    pub(crate) words: SparseVector,
    pub(crate) grams: SparseVector,
}

impl SearchIndex {
    /// Builds the index of `catalog`.
    pub fn new(catalog: &Catalog) -> SearchIndex {
        SearchIndex::build(catalog, None)
    }

    /// Builds the index of a small catalog that is searched together with the catalog of `others`: terms are as rare as in both
    /// together.
    pub fn new_beside(catalog: &Catalog, others: &SearchIndex) -> SearchIndex {
        SearchIndex::build(catalog, Some(others))
    }

    fn build(catalog: &Catalog, others: Option<&SearchIndex>) -> SearchIndex {
        let mut builder = IndexBuilder::default();
        let mut servers = vec![0; catalog.tools().len()];
        let mut hasher = blake3::Hasher::new();
        for (place, entry) in (0u32..).zip(catalog.servers()) {
            for tool in entry.tools.clone() {
                servers[tool] = place;
                let tool = &catalog.tools()[tool];
                builder.add_tool(&field_texts(tool, &entry.description));
                builder.add_name(tool);
                hasher.update(tool.name.as_str().as_bytes());
                hasher.update(tool.digest.to_string().as_bytes());
            }
        }
        let mut fingerprint = [0; 8];
        hasher.finalize_xof().fill(&mut fingerprint);
        builder.finish(servers, fingerprint, others)
    }

    /// The tools that contain this stem, with weights.
    pub(crate) fn postings(&self, stem: &str) -> &[Posting] {
        let number = self.terms.get(stem).copied();
        number
            .and_then(|number| self.words.get(number as usize))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The tools whose names contain this stem, in order.
    pub(crate) fn tools_named(&self, stem: &str) -> &[u32] {
        self.named.get(stem).map(Vec::as_slice).unwrap_or_default()
    }

    /// The tools that contain this gram, and its rarity.
    pub(crate) fn gram_postings(&self, key: u64) -> Option<(&[Posting], f32)> {
        let number = *self.keys.get(&key)? as usize;
        Some((self.grams.get(number)?, *self.gram_idf.get(number)?))
    }
}

/// The terms of one tool, with their counts by field.
#[derive(Default)]
struct ToolTerms {
    words: Vec<(u32, [f32; FIELD_COUNT])>,
    grams: Vec<(u32, f32)>,
    own_words: Vec<(u32, f32)>,
    own_grams: Vec<(u32, f32)>,
    lengths: [f32; FIELD_COUNT],
}

#[derive(Default)]
struct IndexBuilder {
    terms: HashMap<String, u32>,
    keys: HashMap<u64, u32>,
    /// Whether each gram comes from a script without spaces.
    wide: Vec<bool>,
    /// The term of every word by its spelling: most words recur, and stemming is slow.
    seen: HashMap<String, Option<u32>>,
    read: Vec<ToolTerms>,
    effects: Vec<ToolEffect>,
    names: Vec<Vec<String>>,
}

impl IndexBuilder {
    fn add_tool(&mut self, texts: &[(SearchField, String)]) {
        let stems = TermStemmer::new();
        let mut read = ToolTerms::default();
        let mut counts: HashMap<u32, [f32; FIELD_COUNT]> = HashMap::new();
        let mut shapes: HashMap<u32, f32> = HashMap::new();
        let mut own_words: HashMap<u32, f32> = HashMap::new();
        let mut own_grams: HashMap<u32, f32> = HashMap::new();
        for (field, text) in texts {
            let place = *field as usize;
            for_each_weighted_word(text, |word, length| {
                let Some(term) = self.term_id(&stems, word) else { return };
                counts.entry(term).or_default()[place] += 1.0;
                read.lengths[place] += length;
                if field.is_own() && length > 0.0 {
                    *own_words.entry(term).or_default() += field.spelling_weight();
                }
            });
            if field.spelling_weight() > 0.0 {
                for_each_weighted_word(truncate_bytes(text, MAX_SPELLED_CHARS), |word, length| {
                    let wide = length == 0.0;
                    for_each_gram(word, |key| {
                        let next = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
                        let gram = *self.keys.entry(key).or_insert(next);
                        if gram == next {
                            self.wide.push(wide);
                        }
                        *shapes.entry(gram).or_default() += field.spelling_weight();
                        if field.is_own() && !wide {
                            *own_grams.entry(gram).or_default() += field.spelling_weight();
                        }
                    });
                });
            }
        }
        read.words = sorted_counts(counts);
        read.grams = sorted_counts(shapes);
        read.own_words = sorted_counts(own_words);
        read.own_grams = sorted_counts(own_grams);
        self.read.push(read);
    }

    fn add_name(&mut self, tool: &Tool) {
        let stems = TermStemmer::new();
        let mut name = Vec::new();
        for_each_word(tool.short_name(), |word| name.extend(stems.term(word)));
        self.effects.push(ToolEffect::classify(tool, &stems));
        self.names.push(name);
    }

    fn term_id(&mut self, stems: &TermStemmer, word: &str) -> Option<u32> {
        if let Some(known) = self.seen.get(word) {
            return *known;
        }
        let term = stems.term(word).map(|stem| {
            let next = u32::try_from(self.terms.len()).unwrap_or(u32::MAX);
            *self.terms.entry(stem).or_insert(next)
        });
        self.seen.insert(word.to_owned(), term);
        term
    }

    fn finish(self, servers: Vec<u32>, fingerprint: [u8; 8], others: Option<&SearchIndex>) -> SearchIndex {
        let others = others.filter(|others| !others.servers.is_empty());
        let number = to_f32(self.read.len() + others.map_or(0, |others| others.servers.len()));
        let average = others.map_or_else(|| average_lengths(&self.read), |others| others.average);
        let more_words = counts_beside(&self.terms, |term| {
            others.map_or(0, |others| others.postings(term).len())
        });
        let more_grams = counts_beside(&self.keys, |key| {
            others
                .and_then(|others| others.gram_postings(*key))
                .map_or(0, |(list, _)| list.len())
        });
        let mut words = vec![Vec::new(); self.terms.len()];
        let mut shapes = vec![Vec::new(); self.keys.len()];
        for (tool, read) in (0u32..).zip(&self.read) {
            for (term, fields) in &read.words {
                let worth = bm25f_weight(fields, &read.lengths, &average);
                words[*term as usize].push(Posting { tool, worth });
            }
            for (gram, times) in &read.grams {
                shapes[*gram as usize].push(Posting {
                    tool,
                    worth: 1.0 + times.ln(),
                });
            }
        }
        let rare = |(list, more): (&Vec<Posting>, usize)| idf(number, list.len() + more);
        let word_idf: Vec<f32> = words.iter().zip(more_words).map(rare).collect();
        let gram_idf: Vec<f32> = shapes.iter().zip(more_grams).map(rare).collect();
        for (list, idf) in words.iter_mut().zip(&word_idf) {
            for posting in list {
                posting.worth = idf * posting.worth * (SATURATION + 1.0) / (posting.worth + SATURATION);
            }
        }
        let lengths = gram_lengths(&shapes, &gram_idf, &self.wide, self.read.len());
        for (list, idf) in shapes.iter_mut().zip(&gram_idf) {
            for posting in list {
                posting.worth *= idf / lengths[posting.tool as usize];
            }
        }
        let sayings = self.read.iter().map(|read| ToolVectors {
            words: unit_vector(&read.own_words, &word_idf),
            grams: unit_vector(&read.own_grams, &gram_idf),
        });
        let mut named: HashMap<String, Vec<u32>> = HashMap::new();
        for (tool, name) in (0u32..).zip(&self.names) {
            for stem in name {
                named.entry(stem.clone()).or_default().push(tool);
            }
        }
        SearchIndex {
            effects: self.effects,
            names: self.names,
            named,
            stems: TermStemmer::new(),
            sayings: sayings.collect(),
            terms: self.terms,
            keys: self.keys,
            words,
            grams: shapes,
            gram_idf,
            servers,
            fingerprint,
            average,
        }
    }
}

/// For each of these terms, the number of tools in the other catalog that contain it.
fn counts_beside<T>(terms: &HashMap<T, u32>, have: impl Fn(&T) -> usize) -> Vec<usize> {
    let mut counts = vec![0; terms.len()];
    for (term, number) in terms {
        counts[*number as usize] = have(term);
    }
    counts
}

fn sorted_counts<T>(counts: HashMap<u32, T>) -> Vec<(u32, T)> {
    let mut list: Vec<(u32, T)> = counts.into_iter().collect();
    list.sort_unstable_by_key(|(number, _)| *number);
    list
}

fn average_lengths(read: &[ToolTerms]) -> [f32; FIELD_COUNT] {
    let mut average = [0.0; FIELD_COUNT];
    for one in read {
        for (sum, length) in average.iter_mut().zip(one.lengths) {
            *sum += length;
        }
    }
    average.map(|sum| (sum / to_f32(read.len()).max(1.0)).max(1.0))
}

/// The BM25F weight: the counts of all fields, weighted by field and normalised by length.
fn bm25f_weight(counts: &[f32; FIELD_COUNT], lengths: &[f32; FIELD_COUNT], average: &[f32; FIELD_COUNT]) -> f32 {
    let mut sum = 0.0;
    for field in 0..FIELD_COUNT {
        let long = 1.0 - LENGTH_NORMALISATION + LENGTH_NORMALISATION * lengths[field] / average[field];
        sum += FIELD_WEIGHTS[field] * counts[field] / long;
    }
    sum
}

fn gram_lengths(shapes: &[Vec<Posting>], idf: &[f32], wide: &[bool], tools: usize) -> Vec<f32> {
    let mut lengths = vec![0.0f32; tools];
    for ((list, idf), wide) in shapes.iter().zip(idf).zip(wide) {
        let part = if *wide { WIDE_SCRIPT_LENGTH } else { 1.0 };
        for posting in list {
            lengths[posting.tool as usize] += part * (posting.worth * idf).powi(2);
        }
    }
    lengths.iter().map(|sum| sum.sqrt().max(f32::EPSILON)).collect()
}

fn unit_vector(list: &[(u32, f32)], idf: &[f32]) -> SparseVector {
    let mut list: SparseVector = list
        .iter()
        .map(|(term, times)| (*term, (1.0 + times.ln()) * idf[*term as usize]))
        .collect();
    let length = list
        .iter()
        .map(|(_, worth)| worth * worth)
        .sum::<f32>()
        .sqrt()
        .max(f32::EPSILON);
    for (_, worth) in &mut list {
        *worth /= length;
    }
    list
}

/// The inverse document frequency of a term that occurs in `some` of `all` tools.
fn idf(all: f32, some: usize) -> f32 {
    let some = to_f32(some);
    (1.0 + (all - some + 0.5) / (some + 0.5)).ln()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of tools and words are far below what a float holds exactly"
)]
fn to_f32(number: usize) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests;
