"""An environment whose packages are not installed says which, and how to install them."""

from __future__ import annotations

import pytest

from headrace.envs import registry
from headrace.errors import HeadraceError


@pytest.mark.parametrize(
    ("absent", "says"),
    [
        (("PIL",), "needs the PIL package: pip"),
        (("cv2", "PIL"), "needs the cv2 and PIL packages: pip"),
        (("octax", "cv2", "PIL"), "needs the octax, cv2 and PIL packages: pip"),
    ],
)
def test_missing_packages_are_listed(absent: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name in absent else name)
    with pytest.raises(HeadraceError, match=rf"^octax/pong compiled {says} install 'headrace\[octax\]'$"):
        registry.environment("octax/pong").compiled()
