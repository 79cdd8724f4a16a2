"""Figures: drawn for every kind of store, one look an agent, whole files."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from headrace.agents import VARIANTS
from headrace.analysis.artefacts import drawings, looks_in
from headrace.analysis.canvas import panels, save, shortened, title
from headrace.analysis.figures import latents_over_training, rank_bars, tsne_panels
from headrace.analysis.latents import AtStep, Latents
from headrace.analysis.records import find_runs
from headrace.analysis.representation import Silence
from headrace.analysis.scores import groups
from headrace.analysis.style import LOOKS, looks_of
from headrace.training.run import make_run
from tests.analysis.synthetic import store, write_run


def test_all_of_the_papers_figures_are_drawn(group, rng, tmp_path):
    names = []
    for drawn in drawings([group], rng):
        names.append(drawn.name)
        for axes in drawn.figure.axes:
            assert axes.get_xlabel(), drawn.name
            assert axes.get_ylabel() or axes.get_yticklabels(), drawn.name
    kinds = {name.partition("_")[0] for name in names}
    assert kinds == {"curves", "suite", "cosine", "aggregates", "profiles"}


def test_ablations_and_their_axes_are_drawn(tmp_path, rng):
    store(tmp_path, agents=("qrc+spr", "qrc+curl", "qrc"), seeds=(0, 1))
    drawn = {d.name: d.figure for d in drawings(groups(find_runs(tmp_path).records), rng)}["ablations_minatar_5M"]
    (axes,) = drawn.axes
    assert axes.get_xlabel() == "return / the paper's best return"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["nothing", "CURL", "SPR"]


@pytest.mark.parametrize(
    "words", ["short", "Learning curves, minatar sticky=0.0, 150k steps: mean over seeds, 95% interval"]
)
def test_a_title_is_never_cut_off(words):
    figure, _ = panels(1, 1, 2.7, 1.9)
    title(figure, words)
    figure.canvas.draw()
    assert figure.texts[0].get_window_extent().x1 < figure.bbox.x1


def test_a_figure_is_written_as_png_and_pdf_and_always_the_same(group, rng, tmp_path):
    drawn = next(d for d in drawings([group], rng) if d.name.startswith("suite"))
    png, pdf = save(drawn.figure, tmp_path, drawn.name)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    before = png.read_bytes(), pdf.read_bytes()
    save(drawn.figure, tmp_path, drawn.name)
    assert (png.read_bytes(), pdf.read_bytes()) == before


def test_one_unfinished_run_is_drawn_as_far_as_it_got(tmp_path, rng):
    run = make_run("qrc", "minatar/breakout", steps=1e6, engine="reference")
    write_run(tmp_path, run, 1.0, status="interrupted", share=0.3)
    names = [d.name for d in drawings(groups(find_runs(tmp_path).records), rng)]
    assert names == ["curves_minatar_1M"]


def test_mixed_suites_and_budgets_have_figures_of_their_own(tmp_path, rng):
    for steps in (1e6, 2e6):
        store(tmp_path, agents=("qrc", "qrc+spr"), seeds=(0,), steps=steps)
    run = make_run("qrc", "minatar/breakout", steps=1e6, settings=("env.sticky=0",), engine="reference")
    write_run(tmp_path, run, 1.0)
    names = [d.name for d in drawings(groups(find_runs(tmp_path).records), rng) if d.name.startswith("curves")]
    assert names == ["curves_minatar_1M", "curves_minatar_2M", "curves_minatar-sticky=0.0_1M"]


def test_the_nine_variants_look_different():
    assert set(LOOKS) == set(VARIANTS)
    assert len({look.colour for look in LOOKS.values()}) == 9
    for a, b in combinations(LOOKS, 2):
        if a.partition("+")[0] == b.partition("+")[0]:
            assert LOOKS[a].dashes != LOOKS[b].dashes, (a, b)


# How each kind of colour-blind eye sees linear RGB (Vienot, Brettel and Mollon 1999; tritanopia: Brettel et al. 1997,
# one half-plane): the rows give what remains of red, green and blue.
BLIND = {
    "protan": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
    "deutan": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
    "tritan": [[1.0, 0.14461, -0.14461], [0.0, 0.85924, 0.14076], [0.0, 0.85924, 0.14076]],
    "none": np.eye(3),
}


def lab(colour, blindness):
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(BLIND[blindness]) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ seen
    f = np.cbrt(xyz / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


GROUNDS = ("colour", "dark")


def apart(a, b, blindness, ground):
    return np.linalg.norm(lab(getattr(a, ground), blindness) - lab(getattr(b, ground), blindness))


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("blindness", BLIND)
def test_colours_stay_apart_for_colour_blind_readers(blindness, ground):
    """A difference of 10 in CIELAB is plain to see side by side; lines of one family differ in their dashes too."""
    for a, b in combinations(LOOKS, 2):
        assert apart(LOOKS[a], LOOKS[b], blindness, ground) > 10, (a, b)


@pytest.mark.parametrize("agent", LOOKS)
def test_every_colour_can_be_seen_on_its_ground(agent):
    assert lab(LOOKS[agent].colour, "none")[0] < 80
    assert lab(LOOKS[agent].dark, "none")[0] > 50


OTHERS = [
    "qrc+spr+orth aux.weight=0.4", "qrc+spr aux.weight=0.1", "qrc td.lr=0.0003", "qrc+spr+mean", "qrc+spr+tau99",
    "qrc+target", "dqn released", "a", "b", "some other agent",
]  # fmt: skip


@pytest.mark.parametrize("base", [(), ("qrc",), ("qrc", "qrc+spr", "strq")])
def test_a_few_changed_agents_can_be_told_apart_by_colour_and_by_line(base):
    """Where the nine are not all there, their colours and lines are free."""
    agents = [*base, "qrc td.lr=0.0003", "qrc td.lr=0.001", "qrc td.lr=0.003"]
    looks = looks_of(agents)
    for a, b in combinations(agents, 2):
        assert looks[a].dashes != looks[b].dashes or {a, b} <= set(LOOKS), (a, b)
        for ground in GROUNDS:
            assert apart(looks[a], looks[b], "none", ground) > 30 or {a, b} <= set(LOOKS), (a, b)


@pytest.mark.parametrize("ground", GROUNDS)
def test_other_agents_are_far_from_the_nine_and_from_each_other(ground):
    looks = looks_of([*LOOKS, *OTHERS])
    assert {agent: looks[agent] for agent in LOOKS} == LOOKS
    for a, b in combinations(looks, 2):
        assert apart(looks[a], looks[b], "none", ground) > 20, (a, b)
        for blindness in BLIND:
            near = apart(looks[a], looks[b], blindness, ground)
            assert near > 7, (a, b, blindness)
            assert near > 10 or looks[a].dashes != looks[b].dashes, (a, b, blindness)
    for agent in OTHERS:
        assert lab(looks[agent].colour, "none")[0] < 80
        assert lab(looks[agent].dark, "none")[0] > 45


def test_looks_depend_on_the_agents_alone():
    assert looks_of(["qrc", *OTHERS]) == looks_of([*reversed(OTHERS), "qrc", "a"])


def test_a_hundred_agents_all_look_different():
    looks = looks_of(f"qrc td.lr={n}" for n in range(100))
    assert len(set(looks.values())) == 100
    assert len(looks_of(map(str, range(2000)))) == 2000


def test_an_agent_looks_the_same_in_all_groups_of_a_report(tmp_path, rng):
    store(tmp_path, agents=("qrc", "qrc+curl"), envs=("minatar/breakout",), seeds=(0,), steps=1e6)
    store(tmp_path, agents=("qrc", "qrc+curl", "dqn+replay5"), envs=("minatar/breakout",), seeds=(0,), steps=2e6)
    both = groups(find_runs(tmp_path).records)
    looks = looks_in(both)
    assert looks["qrc+curl"] != looks_in(both[:1])["qrc+curl"], "or this test shows nothing"
    for drawn in drawings(both, rng):
        if drawn.name.startswith("curves"):
            shown = {to_hex(line.get_color()).upper() for line in drawn.figure.axes[0].lines}
            assert shown <= {look.colour for look in looks.values()}
            assert looks["qrc+curl"].colour in shown


LONG = [f"qrc+spr+orth aux.weight={w} td.lr=0.0001" for w in (0.1, 0.4)] + ["qrc+spr+orth aux.weight=0.4", "qrc"]


@pytest.mark.parametrize(
    "names",
    [
        LONG,
        [f"qrc+spr+orth aux.weight={w}" for w in (0.1, 0.4)],
        [f"{'a' * 40}{n}{'b' * 40}" for n in range(3)],
        [f"{n}{'a' * 40}" for n in range(3)],
        [f"{'a' * 40}{n}" for n in range(3)],
    ],
)
def test_no_two_names_are_cut_to_the_same_words(names):
    shown = shortened(names)
    assert len(set(shown)) == len(names)
    assert all(len(words) <= 28 or words == name for words, name in zip(shown, names, strict=True))


def test_a_legend_names_every_agent_apart(tmp_path, rng):
    for weight in (0.1, 0.4):
        run = make_run("qrc+spr+orth", "minatar/breakout", settings=(f"aux.weight={weight}",), engine="reference")
        write_run(tmp_path, run, 1.0)
    found = groups(find_runs(tmp_path).records)
    drawn = next(d for d in drawings(found, rng) if d.name.startswith("curves"))
    words = [text.get_text() for text in drawn.figure.legends[0].get_texts()]
    assert len(words) == len(set(words)) == 2


def made_up_latents(last=100.0):
    at = [
        AtStep(step, rank, rank + 1, 1024, {"encoder": Silence(0.0, 0.1)}, {"encoder": 1.0}, {})
        for step, rank in ((0, 50.0), (2_500_000, 80.0), (5_000_000, last))
    ]
    return Latents("minatar/breakout", "uniformly random", 5000, tuple(at), (30.0,))


def test_latents_are_drawn(group, rng, tmp_path):
    ranks = {agent: rng.uniform(10, 500, (5, 5)) for agent in group.agents}
    points = {step: rng.normal(size=(300, 2)).astype(np.float32) for step in (0, 2_500_000, 5_000_000)}
    figures = {
        "rank": rank_bars(group, ranks, LOOKS),
        "over_training": latents_over_training([("qrc", made_up_latents()), ("dqn", made_up_latents(20))], LOOKS, "L"),
        "tsne": tsne_panels([("qrc+spr+orth", points), ("qrc", points)], 30, "breakout", 5_000_000),
    }
    assert "(dimensions)" in figures["rank"].axes[0].get_xlabel()
    assert "(dimensions)" in figures["over_training"].axes[0].get_ylabel()
    for name, figure in figures.items():
        assert all(path.stat().st_size > 1000 for path in save(figure, tmp_path, name))
