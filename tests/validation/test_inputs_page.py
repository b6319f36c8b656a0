"""The page of unknown inputs: a section is rewritten once all its rows have results."""

import json
from pathlib import Path

import numpy as np
import scipy.linalg

from validation.inputs import kalman, page

FACTS = {"date": "2001-02-03", "version": "0", "seconds": 9.0}


def test_sections_are_written_when_all_their_rows_have_results(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"{page.TITLE}\n## Cost\n\nas it was\n")
    fixed = FACTS | {"seed": 3, "x": 0.1, "dx": 0.2, "nmse": 0.3, "coverage": 91.0, "held": {"force.scale": True}}
    (tmp_path / "duffing-fixed-3.json").write_text(json.dumps(fixed))
    page.write(tmp_path, path)
    assert set(page.published(path.read_text())) == {"Cost"}
    for row in ("inferred", "accelerometer", "accelerometer-fixed"):
        (tmp_path / f"duffing-{row}-3.json").write_text(json.dumps(fixed | {"held": {"k": False, "c": True}}))
    page.write(tmp_path, path)
    found = page.published(path.read_text())
    assert set(found) == {"Cost", "A Duffing oscillator"} and "as it was" in found["Cost"]
    row = "| inferred | 1 | 0.1 (largest 0.1) | 0.2 (largest 0.2) | 0.3 (largest 0.3) | 91 | 1 of 2 (50 %) | 9 |"
    assert row in found["A Duffing oscillator"]
    assert len(page.read(tmp_path, "duffing-accelerometer")) == 1


def test_the_augmented_kalman_filter_is_the_joint_gaussian() -> None:
    """x'' = f - 0.5 x' - 2 x, f a random walk, against the joint Gaussian of all samples, to the Runge-Kutta steps."""
    dt, rate, noise, count = 0.1, 0.7, 0.05, 12
    positions = np.sin(np.arange(count) / 3)
    mean, sd = kalman.smoothed(lambda x, v, f: f - 0.5 * v - 2 * x, positions, dt, rate, noise, (1.0, 1.0, 1.0))
    a = np.array([[0.0, 1.0, 0.0], [-2.0, -0.5, 1.0], [0.0, 0.0, 0.0]])
    block = scipy.linalg.expm(np.block([[-a, np.diag([0.0, 0.0, rate**2])], [np.zeros((3, 3)), a.T]]) * dt)
    step = block[3:, 3:].T
    stacked = np.eye(3 * count)
    for k in range(1, count):
        stacked[3 * k : 3 * k + 3, : 3 * k] = step @ stacked[3 * k - 3 : 3 * k, : 3 * k]
    first = np.diag([noise**2, 1.0, 1.0])
    prior = stacked @ scipy.linalg.block_diag(first, *[step @ block[:3, 3:]] * (count - 1)) @ stacked.T
    expected = stacked[:, :3] @ np.array([positions[0], 0.0, 0.0])
    seen, wanted = np.arange(0, 3 * count, 3), np.arange(2, 3 * count, 3)
    gain = prior[:, seen] @ np.linalg.inv(prior[np.ix_(seen, seen)] + noise**2 * np.eye(count))
    posterior = expected + gain @ (positions - expected[seen])
    spread = np.sqrt(np.diag(prior - gain @ prior[seen]))
    np.testing.assert_allclose(mean, posterior[wanted], atol=1e-6)  # (dt / 4)^4 per unit of time
    np.testing.assert_allclose(sd, spread[wanted], atol=1e-6)
