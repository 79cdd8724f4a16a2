"""The page's sections: each makes parts from what was found."""

from __future__ import annotations

from headrace.analysis.report.context import Context
from headrace.analysis.report.gallery import Gallery
from headrace.analysis.report.parts import Section
from headrace.analysis.report.sections.curves import learning_curves, representation
from headrace.analysis.report.sections.overview import overview
from headrace.analysis.report.sections.runs import runs
from headrace.analysis.report.sections.scores import ablations, aggregates, claims, costs, results


def all_parts(context: Context, gallery: Gallery) -> list[Section]:
    """In the order of the page."""
    return [
        overview(context),
        *learning_curves(context),
        *results(context),
        *aggregates(context),
        *claims(context),
        *representation(context),
        *ablations(context),
        costs(context),
        gallery.part(),
        runs(context),
    ]
