"""Zones: the same offsets as Python's zoneinfo, and names that are checked before any file is touched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from importlib import resources
from pathlib import Path

import pytest
import tzdata

from foliot.errors import InvalidValue
from foliot.when import check_zone, tzdata_version, zone_names, zones
from foliot.when.zones import load_zone
from when.brute import utc, zone_info


def test_every_zone_has_the_offsets_of_zoneinfo() -> None:
    moments = range(utc("1901-01-01T00:00"), utc("2450-01-01T00:00"), 83 * 86_400)
    for index, name in enumerate(sorted(zone_names())):
        zone, info = load_zone(name), zone_info(name)
        changes = zone.changes[index % 5 :: 5]  # another fifth of them for each zone
        asked = [*moments[index % 40 :: 40], *changes, *(change - 1 for change in changes)]
        for moment in asked:
            offset = datetime.fromtimestamp(moment, info).utcoffset()
            assert offset is not None and zone.offset_at(moment) == offset.total_seconds(), (
                name,
                moment,
            )


def test_the_rules_are_those_of_the_tzdata_package() -> None:
    assert tzdata_version() == tzdata.IANA_VERSION


@pytest.fixture
def without_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine whose zones are the system's alone: Berlin's."""

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    berlin = tmp_path / "Europe" / "Berlin"
    berlin.parent.mkdir()
    berlin.write_bytes(
        resources.files("tzdata").joinpath("zoneinfo", "Europe", "Berlin").read_bytes()
    )
    monkeypatch.setattr("foliot.when.zones.resources.files", missing)
    monkeypatch.setattr(zones, "import_module", missing)
    monkeypatch.setattr(zones, "TZPATH", ("nowhere", str(tmp_path)))
    monkeypatch.setattr(zones, "available_timezones", lambda: {"Europe/Berlin"})
    cached = (zones.load_zone, zones.zone_names, zones.tzdata_version)
    for function in cached:
        function.cache_clear()
    yield tmp_path
    for function in cached:
        function.cache_clear()


def test_without_the_package_the_zones_are_the_systems(without_package: Path) -> None:
    assert load_zone("Europe/Berlin").offset_at(utc("2400-07-01T00:00")) == 7200
    assert tzdata_version() == "unknown"
    with pytest.raises(InvalidValue, match="is not a known time zone"):
        check_zone("Europe/Paris")
    tzdata_version.cache_clear()
    (without_package / "tzdata.zi").write_text("# version 2026a\n# the rest\n", encoding="utf-8")
    assert tzdata_version() == "2026a"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("utc", "did you mean Etc/UTC or UTC?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Europe/Berlni", "Europe/Berlin"),
        ("new york", "did you mean America/New_York?"),
        ("GMT+5", "Etc/GMT-5 is UTC+5"),
        ("UTC-3", "Etc/GMT+3 is UTC-3"),
    ],
)
def test_a_wrong_name_is_answered_with_near_ones(name: str, hint: str) -> None:
    with pytest.raises(InvalidValue, match="is not a known time zone") as refused:
        check_zone(name)
    assert hint in str(refused.value.hint)
