"""Reads texts, says what one peer finds in them, in bytes, and how fast it reads the pieces."""

import json
import logging
import sys
import time


def presidio():
    import spacy
    import tldextract
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine
    from presidio_analyzer.predefined_recognizers import SpacyRecognizer

    # Its own copy of the list of suffixes: nothing is fetched.
    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=())

    class Blank(SpacyNlpEngine):
        def __init__(self):
            super().__init__(models=[{"lang_code": "en", "model_name": "blank"}])
            self.nlp = {"en": spacy.blank("en")}

        def load(self):
            pass

    engine = AnalyzerEngine(nlp_engine=Blank(), supported_languages=["en"])
    engine.registry.recognizers = [one for one in engine.registry.recognizers if not isinstance(one, SpacyRecognizer)]

    def find(text):
        results = engine.analyze(text, language="en", score_threshold=0.4)
        return [(one.start, one.end, one.entity_type) for one in results]

    return find


def scrubadub():
    import scrubadub

    scrubber = scrubadub.Scrubber()

    def parts(filth):
        inner = getattr(filth, "filths", None)
        return [filth] if not inner else [part for one in inner for part in parts(one)]

    def find(text):
        filths = [part for one in scrubber.iter_filth(text) for part in parts(one)]
        return [(one.beg, one.end, one.type) for one in filths]

    return find


def datafog():
    from datafog.processing.text_processing.regex_annotator import RegexAnnotator

    annotator = RegexAnnotator()

    def find(text):
        _, result = annotator.annotate_with_spans(text)
        return [(one.start, one.end, one.label) for one in result.spans]

    return find


def in_bytes(text, found):
    if text.isascii():
        return found
    places = [0]
    for letter in text:
        places.append(places[-1] + len(letter.encode()))
    return [(places[start], places[end], kind) for start, end, kind in found]


def main():
    logging.disable(logging.CRITICAL)
    find = {"presidio": presidio, "scrubadub": scrubadub, "datafog": datafog}[sys.argv[1]]()
    with open(sys.argv[2], encoding="utf-8") as file:
        given = json.load(file)
    found = [in_bytes(text, find(text)) for text in given["texts"]]
    begun = time.process_time()
    for piece in given["pieces"]:
        find(piece)
    seconds = time.process_time() - begun
    json.dump({"found": found, "seconds": seconds}, sys.stdout)


main()
