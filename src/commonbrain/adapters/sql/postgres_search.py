"""The searches of the full text, which run with the owner's rights; see `postgres_words` for why.

They take the tenant from the transaction's setting alone, whatever they are asked, and find nothing
where none is set.
"""

from typing import Final

# ruff: noqa: S608 the statements are put together from constants of this file alone
_FUNCTION: Final = """
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    tenant CONSTANT text := nullif(current_setting('commonbrain.tenant', true), '');
    name CONSTANT text := CASE WHEN asked_field IS NULL THEN 'memory_text' ELSE 'atom_text' END;
    here CONSTANT text := 't.tenant_id = $1 AND ($2 IS NULL OR '
        || CASE WHEN asked_field IS NULL THEN 'true)' ELSE 't.field = $2)' END;
"""
_COUNT: Final = f"""
CREATE OR REPLACE FUNCTION words_counted(asked text[], asked_field text, bound bigint)
RETURNS TABLE (word text, matched bigint) {_FUNCTION}
    query tsquery;
BEGIN
    IF tenant IS NULL THEN RETURN; END IF;
    FOREACH word IN ARRAY asked LOOP
        query := phraseto_tsquery('commonbrain', word);
        CONTINUE WHEN numnode(query) = 0;
        EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM %I t WHERE %s '
            'AND t.words @@ $3 LIMIT $4) AS few', name, here)
        INTO matched USING tenant, asked_field, query, bound;
        RETURN NEXT;
    END LOOP;
END $body$
"""
# ts_rank of a word that occurs n times is r = (1 + 1/4 + ... + 1/n^2) / (pi^2/6), so that
# n = 0.608 / (1 - r) - 0.5 within 0.06 of it: BM25 asks how often, and Postgres does not tell. Its
# constants are those of SQLite's full text: k1 = 1.2, b = 0.75.
_OFTEN: Final = "(0.608 / (1.000001 - s.r%1$s) - 0.5)"
_GAIN: Final = f"CASE WHEN s.r%1$s > 0 THEN $6[%1$s] * 2.2 * {_OFTEN} / ({_OFTEN} + s.k) ELSE 0 END"
_FIND: Final = f"""
CREATE OR REPLACE FUNCTION words_found(
    asked text[], weights float8[], asked_field text, average float8, newest bigint, most integer)
RETURNS TABLE (memory_id bigint, score float8) {_FUNCTION}
    ranks text := '';
    gains text := '0';
    since bigint := 0;
    query tsquery;
    any_of tsquery;
    every tsquery[] := ARRAY[]::tsquery[];
BEGIN
    IF tenant IS NULL OR cardinality(asked) = 0 THEN RETURN; END IF;
    FOR at IN 1 .. cardinality(asked) LOOP
        query := phraseto_tsquery('commonbrain', asked[at]);
        every := every || query;
        any_of := CASE WHEN any_of IS NULL THEN query ELSE any_of || query END;
        ranks := ranks || format(CASE WHEN numnode(query) = 1
            THEN ', ts_rank(ARRAY[1, 1, 1, 1]::float4[], t.words, $5[%1$s]) AS r%1$s'
            ELSE ', CASE WHEN t.words @@ $5[%1$s] THEN 0.6079 ELSE 0 END AS r%1$s' END, at);
        gains := gains || format(' + {_GAIN}', at);
    END LOOP;
    IF newest IS NOT NULL THEN
        EXECUTE format('SELECT t.memory_id FROM %I t WHERE %s '
            'ORDER BY t.memory_id DESC OFFSET $3 LIMIT 1', name, here)
        INTO since USING tenant, asked_field, newest;
    END IF;
    RETURN QUERY EXECUTE format('SELECT s.memory_id, s.score FROM (SELECT s.memory_id, '
        '(%s)::float8 AS score FROM (SELECT t.memory_id, '
        '0.3 + 0.9 * t.length / greatest($7, 1) AS k %s FROM %I t '
        'WHERE %s AND t.memory_id >= $3 AND t.words @@ $4 OFFSET 0) AS s) AS s '
        'ORDER BY s.score DESC, s.memory_id DESC LIMIT $8', gains, ranks, name, here)
    USING tenant, asked_field, coalesce(since, 0), any_of, every, weights, average, most;
END $body$
"""
SEARCH: Final = (
    # A search of an older version had other arguments, and was another function.
    "DROP FUNCTION IF EXISTS words_found(text[], text, bigint, float8, integer)",
    _COUNT,
    _FIND,
)
