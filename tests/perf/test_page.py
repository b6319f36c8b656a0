"""The page of timings reports what was measured, and what was not."""

from pathlib import Path

import pytest

from perf import page

MACHINE = {"cpu": "a processor", "cores": 2, "date": "2026-01-02"}


def figures(**changes: object) -> dict:
    common = {"kind": "smc", "seconds": 10.0, "processor_seconds": 18.0, "compile_seconds": 20.0, "effective": 500.0}
    common |= {"effective_for": {"mean": 900.0, "spread": 600.0, "tail": 500.0}}
    common |= {"seconds_per_effective": 0.02, "processor_seconds_per_effective": 0.036}
    return common | {"mean_shift": 0.05, "sd_ratio": 1.02, "agrees": True} | changes


def end_to_end(ratio: float = 0.5) -> dict:
    waits = {"first_process": {"seconds": 30.0}, "next_process": {"seconds": 12.0}}
    best = {"peer": "pints", "ratio": ratio}
    return {
        "samples": 2000,
        "particles": 1024,
        "few": 256,
        "draws": 16384,
        "cores": 2,
        "methods": {"probsysid": figures() | waits, "pints": figures(agrees=False), "numpyro": None},
        "missing": {"numpyro": "No figures for numpyro: it is not there."},
        "best_peer_over_ours": {
            "seconds_per_effective": best,
            "processor_seconds_per_effective": best,
            "tail": {"peer": "pints", "ratio": 7.0},
        },
        "reference": {"log_evidence": 321.0, "log_evidence_error": 0.01, "effective": 3000.0},
    }


@pytest.mark.parametrize(
    "text",
    ["INTRODUCTION", "PILOT_TEXT", "KERNEL_TEXT", "SIZES_TEXT", "SWEEP_TEXT", "STATE_TEXT", "RUN_TEXT", "AFTER_TEXT"],
)
def test_the_published_page_has_the_sentences_of_the_script(text: str):
    published = Path(__file__).parents[2] / "docs" / "performance.md"
    assert getattr(page, text) in published.read_text()


def test_one_section_is_replaced_or_added_and_nothing_else():
    before = "# Speed\n\nIntroduction.\n\n## First\n\nOne.\n\n## Second\n\nTwo.\n"
    added = page.with_section(before, "## What certainty costs\n\nThree.")
    assert added == before.replace("## Second", "## What certainty costs\n\nThree.\n\n## Second")
    assert page.with_section(added, "## First\n\nOther.") == added.replace("One.", "Other.")


def test_nothing_measured():
    text = page.page({}, MACHINE)
    for script, *_ in page.SCRIPTS.values():
        assert f"No figures of `perf/{script}`" in text


def test_a_missing_method_is_a_dash_and_a_sentence():
    text = page.page({"end_to_end": end_to_end()}, MACHINE)
    assert "| numpyro, NUTS | - | - |" in text
    assert "| 900, 600, 500 |" in text
    assert "it is not there" in text


def test_a_posterior_that_disagrees_is_marked():
    (row,) = [line for line in page.end_to_end(end_to_end()).splitlines() if line.startswith("| PINTS")]
    assert row.endswith("| **no** |")


def test_what_it_costs_is_said_all_the_same():
    refined = {"seconds": 1.0, "processor_seconds": 2.0, "effective": 1000.0, "agrees": True}
    other = {"seconds": 3.0, "processor_seconds": 4.0, "effective": 100.0, "agrees": False}
    sentences = page.disagreeing({"refined": refined, "pints": other}, {"pints": "PINTS"})
    expected = "PINTS, whose posterior does not agree, costs 30 times as much by the clock and 20 times"
    assert len(sentences) == 1 and sentences[0].startswith(expected)
    assert not page.disagreeing({"refined": refined, "pints": other | {"agrees": True}}, {"pints": "PINTS"})
    assert not page.disagreeing({"refined": None, "pints": other}, {"pints": "PINTS"})


@pytest.mark.parametrize(("ratio", "words"), [(0.5, "is faster"), (3.0, "costs 3 times one of probsysid")])
def test_the_verdict_goes_either_way(ratio: float, words: str):
    assert words in page.end_to_end(end_to_end(ratio))
    assert "is 7 for tails (PINTS, adaptive Metropolis)." in page.end_to_end(end_to_end(ratio))


def test_whole_runs_are_shown_with_their_speed_up():
    row = {"seconds": 4.0, "processor_seconds": 3.5, "sweeps": 30.0}
    tables = {key: {"256": row} for key in ("particles", "particles_all_cores", "samples", "parameters")}
    tables["particles_all_cores"] = {"256": row | {"seconds": 2.5}}
    sped = {"slopes": {}, "speed_up": {"256": 1.6}, "speed_up_possible": {"256": 1.9}}
    text = page.scaling({"cores": 2, "identify": tables | sped})
    assert "| 256 | 30 | 3.5 | 4 | 2.5 | 1.6 | 1.9 |" in text


def test_what_is_asked_afterwards_is_shown_with_its_growth():
    row, longer = {"seconds": 0.1}, {"seconds": 0.4}
    tables = {name: {"1000": row, "4000": longer} for name in ("states", "refined")}
    text = page.scaling({"cores": 2, "afterwards": tables | {"slopes": {"states": 0.97, "refined": 1.2}}})
    assert "| 4000 | 400 | 400 |" in text
    assert "states 0.97, refined 1.2." in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (float("nan"), "-"), (0.0, "0"), (31.24, "31.2"), (1819.4, "1820"), (0.5, "0.5"), (2e-5, "2.00e-05")],
)
def test_numbers(value: float | None, text: str):
    assert page.number(value) == text
