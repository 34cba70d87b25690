"""Random streaming modules replay bit for bit; those with state that nobody declared are refused, or do so as well."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from cadence_runtime.errors import CadenceError
from tests.fuzz_modules.check import keep, kept, read, replayed
from tests.fuzz_modules.recipe import Recipe, recipes, trapped
from tests.fuzz_modules.render import Text, render


def replays(text: Text) -> None:
    assert replayed(text).differences == ()


def replays_or_is_refused(text: Text) -> None:
    try:
        report = replayed(text)
    except CadenceError:
        return
    assert report.differences == ()


def hunt(modules: SearchStrategy[Recipe], check: Callable[[Text], None], count: int, *, is_fixed: bool = False) -> None:
    """Check as many modules; the smallest that fails is kept in `found`, where it is a test from then on. A fixed hunt
    checks the same modules each time, and does not look for a smaller failure."""
    failed: list[Text] = []

    @settings(
        max_examples=count,
        derandomize=is_fixed,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate] if is_fixed else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(modules)
    def run(recipe: Recipe) -> None:
        text = render(recipe)
        try:
            check(text)
        except BaseException:
            failed.append(text)
            raise

    try:
        run()
    except Exception as error:
        # hypothesis runs the smallest failure last.
        error.add_note(f"kept as {keep(failed[-1])}" if failed else "no module failed")
        raise


@pytest.mark.parametrize("name", kept())
def test_what_was_found_replays_now(name: str) -> None:
    replays(read(name))


def test_random_modules_replay() -> None:
    hunt(recipes, replays, 12, is_fixed=True)


def test_undeclared_state_is_refused() -> None:
    hunt(trapped, replays_or_is_refused, 4, is_fixed=True)


@pytest.mark.soak
def test_a_thousand_random_modules_replay() -> None:
    hunt(recipes, replays, 900)


@pytest.mark.soak
def test_a_hundred_times_undeclared_state_is_refused() -> None:
    hunt(trapped, replays_or_is_refused, 100)
