"""Verdicts of a posterior, each a traffic light with one sentence: integration, sampling, model, and one per drift."""

from typing import TYPE_CHECKING

from probsysid._internal.notebook import Light, Verdict

if TYPE_CHECKING:
    from probsysid.posterior.posterior import Posterior


def traffic_lights(posterior: "Posterior") -> list[Verdict]:
    """Green where a check found nothing, red where its verdict is bad, amber where results need a second look."""
    return [_integration(posterior), _sampling(posterior), _model(posterior), *_drifts(posterior)]


def _integration(posterior: "Posterior") -> Verdict:
    if posterior.check is None:
        return Verdict("integration", "unknown", "not checked; posterior.checked() compares it with a finer one.")
    return Verdict("integration", "good" if posterior.check.adequate else "bad", _sentence(posterior.verdict))


def _sampling(posterior: "Posterior") -> Verdict:
    check = posterior.sampling
    if check is None:
        return Verdict("sampling", "unknown", "not checked; a stream has no second look at its data.")
    light: Light = "good" if check.trusted else "doubtful" if check.usable else "bad"
    return Verdict("sampling", light, _sentence(posterior.sampling_verdict.removeprefix("sampling: ")))


def _model(posterior: "Posterior") -> Verdict:
    doubts = posterior.doubts
    if doubts:
        more = f" {len(doubts) - 1} more below." if len(doubts) > 1 else ""
        return Verdict("model", "doubtful", _sentence(doubts[0]) + more)
    if not posterior.errors:
        return Verdict("model", "unknown", "not checked; a stream keeps no prediction errors.")
    return Verdict("model", "good", "nothing in the one-step prediction errors speaks against model and noise.")


def _drifts(posterior: "Posterior") -> list[Verdict]:
    """Amber where the data do not tell a drift from a constant: what is known of its size is then the prior's."""
    return [
        Verdict(f"drift of {d.name}", "doubtful" if d.verdict == "undecided" else "good", _sentence(d.sentence))
        for d in posterior.identifiability.drifts
    ]


def _sentence(text: str) -> str:
    """With one full stop at its end."""
    return f"{text.rstrip('. ')}."
