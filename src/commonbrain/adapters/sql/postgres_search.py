"""The search of the full text, which runs with the owner's rights; see `postgres_words` for why.

It takes the tenant from the transaction's setting alone, whatever it is asked, and finds nothing
where none is set.
"""

from typing import Final

# ruff: noqa: S608 the statements are put together from constants of this file alone
# ts_rank of one word that occurs n times is the sum of 1/i^2 for i = 1..n over pi^2/6: the bound
# between two of these tells how often it occurs, which BM25 asks and Postgres does not tell.
_SEEN: Final = 40
"""Occurrences that are told apart; BM25 hardly tells more."""
_SUMS: Final = [sum(1 / i**2 for i in range(1, n + 1)) / 1.64493406685 for n in range(_SEEN + 1)]
_BOUNDS: Final = [round((_SUMS[n] + _SUMS[n + 1]) / 2, 5) for n in range(_SEEN)]
_OCCURS: Final = f"width_bucket(ts_rank('{{1,1,1,1}}', t.words, w.query)::float8, ARRAY{_BOUNDS})"
# BM25 as SQLite's full text has it, with its constants: k1 = 1.2, b = 0.75.
_BM25: Final = (
    "sum(w.weight * o.times * 2.2 "
    "/ (o.times + 1.2 * (0.25 + 0.75 * t.length / greatest(average, 1))))"
)


def _over(name: str, *, also: str) -> str:
    """Write what is done with one of the two full texts."""
    here = f"t.tenant_id = tenant{also}"
    return f"""
    FOREACH word IN ARRAY asked LOOP
        query := phraseto_tsquery('commonbrain', word);
        CONTINUE WHEN numnode(query) = 0;
        SELECT count(*) INTO matched FROM (
            SELECT 1 FROM {name} t WHERE {here} AND t.words @@ query LIMIT bound) AS few;
        every := every || query;
        -- What most have tells nothing, and never counts against a memory.
        weights := weights || greatest(0.000001, ln(
            (greatest(total - matched, 0) + 0.5)::float8 / (matched + 0.5)));
        IF matched < bound THEN
            telling := telling || query;
            telling_weights := telling_weights || weights[cardinality(weights)];
            matches := matches + matched;
        END IF;
    END LOOP;
    IF cardinality(telling) > 0 THEN
        every := telling;
        weights := telling_weights;
    ELSE
        matches := scored_max + 1;
    END IF;
    IF cardinality(every) = 0 THEN RETURN; END IF;
    query := every[1];
    FOR at IN 2 .. cardinality(every) LOOP query := query || every[at]; END LOOP;
    IF matches > scored_max THEN
        SELECT t.memory_id INTO since FROM {name} t WHERE {here} AND t.words @@ query
        ORDER BY t.memory_id DESC LIMIT 1 OFFSET scored_max;
    END IF;
    RETURN QUERY SELECT t.memory_id, s.score FROM {name} t CROSS JOIN LATERAL (
        SELECT {_BM25} AS score FROM unnest(every, weights) AS w (query, weight)
        CROSS JOIN LATERAL (SELECT CASE WHEN numnode(w.query) = 1 THEN {_OCCURS}
            WHEN t.words @@ w.query THEN 1 ELSE 0 END AS times) AS o) AS s
    WHERE {here} AND t.words @@ query AND t.memory_id >= coalesce(since, 0)
    ORDER BY s.score DESC, t.memory_id DESC LIMIT most;"""


SEARCH: Final = f"""
CREATE OR REPLACE FUNCTION words_found(
    asked text[], asked_field text, total bigint, average float8, most integer)
RETURNS TABLE (memory_id bigint, score float8)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, {{schema}}, pg_temp
AS $body$
#variable_conflict use_variable
DECLARE
    tenant CONSTANT text := nullif(current_setting('commonbrain.tenant', true), '');
    -- A word that more than 4% of the memories have is left out of a search for several words.
    bound CONSTANT bigint := greatest(2000, total / 25);
    -- How many matches are scored when all words of a search are common: the newest.
    scored_max CONSTANT bigint := 5000;
    word text;
    query tsquery;
    matched bigint;
    matches bigint := 0;
    since bigint;
    every tsquery[] := '{{}}';
    weights float8[] := '{{}}';
    telling tsquery[] := '{{}}';
    telling_weights float8[] := '{{}}';
BEGIN
    IF tenant IS NULL THEN RETURN; END IF;
    IF asked_field IS NULL THEN {_over("memory_text", also="")}
    ELSE {_over("atom_text", also=" AND t.field = asked_field")}
    END IF;
END $body$
"""
