"""Messages of MCP that cannot be read, with the id that their sender waits for."""

CALL = b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"recall","arguments":%s}}'
LATE = b'{"method":"tools/call","params":{"name":"recall","arguments":%s},"jsonrpc":"2.0","id":%s}'
DEEP = b"[" * 5000 + b"]" * 5000
MALFORMED = (
    (CALL % (b"1", b'{"query":"a\\ud800b"}'), 1),
    (LATE % (b'{"id":"mem_1","query":"a\\ud800b"}', b'"two"'), "two"),
    (CALL % (b"3", b'{"query":%s}' % DEEP), 3),
    (LATE % (b'{"id":1,"query":%s}' % DEEP, b"4"), 4),
    (CALL % (b"5", b'{"max_items":%s}' % (b"9" * 5000)), 5),
    (CALL % (b"1.5", b"{}"), 1.5),
    (CALL % (b"true", b"{}"), True),
    (CALL % (b"null", b"{}"), None),
    (CALL % (b"[6]", b"{}"), None),
    (b'{"jsonrpc":"2.0","id":7}', 7),
    (b'{"id":8,"method":"ping"}', 8),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":[1]}', 9),
    (b'[{"jsonrpc":"2.0","id":10,"method":"ping"}]', None),
    (b"no JSON", None),
    (b'{"id":"' + b"x" * 300, None),
)
