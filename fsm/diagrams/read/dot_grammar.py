"""The grammar of DOT, which is pydot's; what a graph means is not known here."""

import warnings
from copy import deepcopy
from functools import cache

from pyparsing import Empty, Opt, ParseBaseException, ParserElement

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # pydot calls pyparsing by its old names
    import pydot
    from pydot.dot_parser import GraphParser


def parse(text: str) -> pydot.Graph:
    """The one graph of *text*; raises pyparsing's exception for what is none."""
    graph: pydot.Graph
    try:
        (graph,) = _uncommented().parse_string(text, parse_all=True)
    except ParseBaseException:
        (graph,) = GraphParser.parser.parse_string(text, parse_all=True)
    return graph


@cache
def _uncommented() -> ParserElement:
    """The grammar of pydot without comments; looking for them before every token takes nine tenths of the time.

    No token begins as a comment does, so what this grammar matches is the same in pydot's.
    """
    absent = Opt(Empty()).defaultValue  # pyparsing compares it by identity
    grammar = deepcopy(GraphParser.parser, {id(absent): absent})
    for each in grammar.visit_all():  # type: ignore[no-untyped-call]  # pyparsing gives it no types
        each.ignoreExprs = []
    return grammar
