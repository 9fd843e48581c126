"""Embedders, extractors and reflectors, as settings name them."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from commonbrain.adapters.models import (
    EMBEDDERS,
    EXTRACTORS,
    REFLECTORS,
    Options,
    embedder_named,
    settings_of,
)
from commonbrain.domain.errors import Corrupt, Invalid
from commonbrain.domain.space import Space
from commonbrain.ports.models import Embedder, Extractor, Reflector
from commonbrain.ports.spaces import SpaceMismatch
from commonbrain.settings import Settings


def make_embedder(settings: Settings) -> Embedder:
    """Make the embedder that settings name; nothing is loaded or sent yet.

    Raises:
        Invalid: there is no such embedder, or what it needs to know is missing or wrong.

    """
    make = EMBEDDERS.get(settings.embedder)
    if make is None:
        raise Invalid(
            f"There is no embedder {settings.embedder[:40]!r}.",
            hint=f"COMMONBRAIN_EMBEDDER may be {', '.join(EMBEDDERS)}.",
        )
    options = Options(
        threads=settings.embedder_threads,
        model=settings.embedder_model,
        url=settings.embedder_url,
        key=settings.embedder_api_key,
        dimensions=settings.embedder_dimensions,
        timeout_s=settings.embedder_timeout_s,
        retries=settings.embedder_retries,
    )
    return make(options)


def make_next_embedder(space: str, *, settings: Settings) -> Embedder:
    """Make the embedder of another space, by the space's name; nothing is loaded or sent yet.

    Raises:
        Invalid: the name tells of none.

    """
    named = embedder_named(space)
    if named is None:
        raise Invalid(
            f"No embedder is known that makes vectors of {space[:60]!r}.",
            hint="It is minilm, or FAMILY/MODEL/DIMENSIONS as in ollama/nomic-embed-text/768.",
        )
    is_served_alike = named.family == settings.embedder
    told = {
        "embedder": named.family,
        "embedder_model": named.model,
        "embedder_dimensions": named.dimensions,
        # The endpoint of today serves another of its models, unless settings say otherwise.
        "embedder_url": settings.embedder_next_url
        or (settings.embedder_url if is_served_alike else None),
        "embedder_api_key": settings.embedder_next_api_key
        or (settings.embedder_api_key if is_served_alike else None),
    }
    return make_embedder(settings.model_copy(update=told))


def make_extractor(settings: Settings) -> Extractor:
    """Make the extractor that settings name; nothing is sent yet.

    Raises:
        Invalid: there is no such extractor, or what it needs to know is missing or wrong.

    """
    make = EXTRACTORS.get(settings.extractor)
    if make is None:
        raise Invalid(
            f"There is no extractor {settings.extractor[:40]!r}.",
            hint=f"COMMONBRAIN_EXTRACTOR may be {', '.join(EXTRACTORS)}.",
        )
    options = Options(
        model=settings.extractor_model,
        url=settings.extractor_url,
        key=settings.extractor_api_key,
        timeout_s=settings.extractor_timeout_s,
        retries=settings.extractor_retries,
        tokens_max=settings.extractor_tokens_max,
    )
    return make(options)


def make_reflector(settings: Settings) -> Reflector:
    """Make the reflector that settings name; nothing is sent yet.

    Raises:
        Invalid: there is no such reflector, or what it needs to know is missing or wrong.

    """
    make = REFLECTORS.get(settings.reflector)
    if make is None:
        raise Invalid(
            f"There is no reflector {settings.reflector[:40]!r}.",
            hint=f"COMMONBRAIN_REFLECTOR may be {', '.join(REFLECTORS)}.",
        )
    options = Options(
        model=settings.reflector_model,
        url=settings.reflector_url,
        key=settings.reflector_api_key,
        timeout_s=settings.reflector_timeout_s,
        retries=settings.reflector_retries,
        tokens_max=settings.reflector_tokens_max,
    )
    return make(options)


def calibrated(space: Space, settings: Settings) -> Space:
    """Give a space the thresholds that settings know better."""
    names = ("duplicate_at", "similar_at", "relevant_at", "answers_at")
    told = {name: getattr(settings, name) for name in names}
    calibrated = replace(space, **{name: at for name, at in told.items() if at is not None})
    if not calibrated.relevant_at < calibrated.similar_at <= calibrated.duplicate_at:
        raise Invalid(
            f"The thresholds are relevant {calibrated.relevant_at}, similar "
            f"{calibrated.similar_at}, duplicate {calibrated.duplicate_at}; each must be above "
            "the one before.",
            hint="Mend COMMONBRAIN_RELEVANT_AT, COMMONBRAIN_SIMILAR_AT, COMMONBRAIN_DUPLICATE_AT.",
        )
    return calibrated


@contextmanager
def telling_of_settings() -> Generator[None]:
    """Say which settings open a store whose vectors another embedder made."""
    try:
        yield
    except SpaceMismatch as error:
        known = settings_of(error.known)
        raise Corrupt(
            error.message,
            code=error.code,
            hint=f"Open it with {known}; `brain space build` moves it to another embedder."
            if known
            else error.hint,
        ) from error
