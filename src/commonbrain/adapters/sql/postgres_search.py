"""The search of the full text, which runs with the owner's rights; see `postgres_words` for why.

It takes the tenant from the transaction's setting alone, whatever it is asked, and finds nothing
where none is set.
"""

from typing import Final

# ruff: noqa: S608 the statement is put together from constants of this file alone
# ts_rank of a word that occurs n times is r = (1 + 1/4 + ... + 1/n^2) / (pi^2/6), so that
# n = 0.608 / (1 - r) - 0.5 within 0.06 of it: BM25 asks how often, and Postgres does not tell. Its
# constants are those of SQLite's full text: k1 = 1.2, b = 0.75. Both sides of the fraction
# n / (n + k) are multiplied by 1 - r, for this is computed for every word of every match.
_LEFT: Final = "(1.000001::float8 - m.r%1$s)"
_OFTEN: Final = f"(0.608::float8 - 0.5::float8 * {_LEFT})"
_GAIN: Final = (
    f"CASE WHEN m.r%1$s > 0 THEN w.w%1$s * {_OFTEN} / ({_OFTEN} + m.k * {_LEFT}) ELSE 0 END"
)
# What has a word that is searched for is counted among what was found, for all of it was.
_WEIGHT: Final = (
    "coalesce($6[%1$s], ln(greatest(($9 - count(*) FILTER (WHERE m.r%1$s > 0) + 0.5) "
    "/ (count(*) FILTER (WHERE m.r%1$s > 0) + 0.5), 1.000001))) AS w%1$s"
)
_FIND: Final = f"""
CREATE OR REPLACE FUNCTION words_found(
    asked text[], sought integer, weights float8[], asked_field text,
    memories float8, average float8, newest bigint, most integer, scored bigint)
RETURNS TABLE (memory_id bigint, score float8, matches bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, {{schema}}, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    tenant CONSTANT text := nullif(current_setting('commonbrain.tenant', true), '');
    name CONSTANT text := CASE WHEN asked_field IS NULL THEN 'memory_text' ELSE 'atom_text' END;
    here CONSTANT text := 't.tenant_id = $1 AND ($2 IS NULL OR '
        || CASE WHEN asked_field IS NULL THEN 'true)' ELSE 't.field = $2)' END;
    ranks text := '';
    told text := '';
    gains text := '0::float8';
    since bigint := 0;
    query tsquery;
    any_of tsquery;
    every tsquery[] := ARRAY[]::tsquery[];
BEGIN
    IF tenant IS NULL OR cardinality(asked) = 0 THEN RETURN; END IF;
    FOR at IN 1 .. cardinality(asked) LOOP
        query := phraseto_tsquery('commonbrain', asked[at]);
        every := every || query;
        IF at <= sought THEN
            any_of := CASE WHEN any_of IS NULL THEN query ELSE any_of || query END;
        END IF;
        ranks := ranks || format(CASE WHEN numnode(query) = 1
            THEN ', ts_rank(ARRAY[1, 1, 1, 1]::float4[], t.words, $5[%1$s]) AS r%1$s'
            ELSE ', CASE WHEN t.words @@ $5[%1$s] THEN 0.6079 ELSE 0 END AS r%1$s' END, at);
        told := told || format('{_WEIGHT}, ', at);
        gains := gains || format(' + {_GAIN}', at);
    END LOOP;
    IF newest IS NOT NULL THEN
        EXECUTE format('SELECT t.memory_id FROM %I t WHERE %s '
            'ORDER BY t.memory_id DESC OFFSET $3 LIMIT 1', name, here)
        INTO since USING tenant, asked_field, newest;
    END IF;
    RETURN QUERY EXECUTE format('WITH m AS MATERIALIZED (SELECT t.memory_id, '
        '0.3::float8 + t.length * (0.9 / greatest($7, 1)) AS k %s FROM %I t WHERE %s '
        'AND t.memory_id >= $3 AND t.words @@ $4 LIMIT $10), '
        'w AS MATERIALIZED (SELECT %s count(*) AS matches FROM m) '
        'SELECT m.memory_id, 2.2::float8 * (%s) AS score, w.matches FROM m, w '
        'ORDER BY 2 DESC, 1 DESC LIMIT $8', ranks, name, here, told, gains)
    USING tenant, asked_field, coalesce(since, 0), any_of, every, weights, average, most, memories,
        scored;
END $body$
"""
# The searches of older programs had other arguments and are other functions. They stay as they are,
# with their privileges: programs are replaced one by one, after the upgrade. The next version of
# the schema may drop them: words_counted, and words_found of five, six and eight arguments.
SEARCH: Final = (_FIND,)
