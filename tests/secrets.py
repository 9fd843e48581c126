"""Texts with secrets, put together when the tests run, and texts that merely look so.

No secret stands here in one piece, or scanners of repositories would trip over this file.
"""

import random
import string
from typing import Final

_RANDOM: Final = random.Random(7)  # noqa: S311 made up, and the same in every run
_ALNUM: Final = string.ascii_letters + string.digits
_HEX: Final = "0123456789abcdef"
_UPPER: Final = string.ascii_uppercase + "234567"


def made_up(count: int, letters: str = _ALNUM) -> str:
    """Give letters as chance has them, with a digit and both cases among them."""
    body = "".join(_RANDOM.choice(letters) for _ in range(max(count - 3, 0)))
    return ("7" + ("a" if "a" in letters else "A") + ("Q" if "Q" in letters else "b") + body)[
        :count
    ]


def _pem(sort: str) -> str:
    dashes = "-" * 5
    lines = "\n".join(made_up(64) for _ in range(4))
    return (
        f"{dashes}BEGIN {sort}PRIVATE KEY{dashes}\n{lines}\n{dashes}END {sort}PRIVATE KEY{dashes}"
    )


def _jwt() -> str:
    return ".".join(("ey" + "J" + made_up(30), "ey" + "J" + made_up(60), made_up(43)))


# Each pair is a text and the secret in it, which may be told to nobody.
SECRETS: Final[dict[str, tuple[str, str]]] = {
    name: (text.replace("{}", secret), secret)
    for name, text, secret in (
        (
            "commonbrain",
            "bob calls with {}",
            "cb" + "_acme_" + made_up(8, _HEX) + "_" + made_up(48, _HEX),
        ),
        (
            "commonbrain session",
            "the cookie is {}",
            "cbs" + "_acme_" + made_up(43, _ALNUM + "-_"),
        ),
        ("anthropic", "export KEY with {}", "sk-" + "ant-api03-" + made_up(90)),
        ("anthropic in prose", "Claude is called with {}, she said.", "sk-" + "ant-" + made_up(40)),
        ("openai", "the key {} is for tests", "sk-" + made_up(48)),
        ("openai project", "{}", "sk-" + "proj-" + made_up(80)),
        ("openrouter", "use {}", "sk-" + "or-v1-" + made_up(64, _HEX)),
        ("aws id", "id {} in eu-west-1", "AK" + "IA" + made_up(16, _UPPER)),
        ("aws temporary id", "id {}", "AS" + "IA" + made_up(16, _UPPER)),
        ("aws secret", "aws_secret_access_key = {}", made_up(40, _ALNUM + "/+")),
        ("google api", "maps key {}", "AI" + "za" + made_up(35)),
        ("google oauth", "client {}", "GOC" + "SPX-" + made_up(28)),
        ("google access", "token {}", "ya" + "29." + made_up(60)),
        ("github classic", "git clone with {}", "gh" + "p_" + made_up(36)),
        ("github app", "{}", "gh" + "s_" + made_up(36)),
        ("github fine", "use {}", "github" + "_pat_" + made_up(82)),
        ("gitlab", "CI uses {}", "gl" + "pat-" + made_up(20)),
        ("gitlab deploy", "CI uses {}", "gl" + "dt-" + made_up(24)),
        ("slack bot", "bot {}", "xo" + "xb-123456789012-" + made_up(24)),
        ("slack app", "app {}", "xa" + "pp-1-A012-" + made_up(40)),
        (
            "slack hook",
            "post to {}",
            "https://hooks." + "slack.com/services/T012AB/B012CD/" + made_up(24),
        ),
        ("stripe", "charge with {}", "sk" + "_live_" + made_up(24)),
        ("stripe restricted", "charge with {}", "rk" + "_live_" + made_up(24)),
        ("stripe hook", "verify with {}", "wh" + "sec_" + made_up(32)),
        ("npm", "publish with {}", "np" + "m_" + made_up(36)),
        ("pypi", "upload with {}", "py" + "pi-AgEIcHlwaS5vcmc" + made_up(70)),
        ("sendgrid", "mail with {}", "SG" + "." + made_up(22) + "." + made_up(43)),
        ("twilio", "call with {}", "S" + "K" + made_up(32, _HEX)),
        ("hugging face", "pull with {}", "hf" + "_" + made_up(34)),
        ("docker", "login with {}", "dckr" + "_pat_" + made_up(27)),
        ("digital ocean", "doctl with {}", "do" + "p_v1_" + made_up(64, _HEX)),
        ("databricks", "connect with {}", "da" + "pi" + made_up(32, _HEX)),
        ("telegram", "bot {}", "123456789:" + "AA" + made_up(33)),
        ("azure", "AccountKey={}", made_up(86) + "=="),
        ("age", "{}", "AGE-SECRET" + "-KEY-1" + made_up(58, string.ascii_uppercase + "234567")),
        ("jwt", "the cookie is {}", _jwt()),
        ("bearer", "Authorization: Bearer {}", made_up(40)),
        ("basic", "Authorization: Basic {}", made_up(40) + "=="),
        ("postgres", "postgresql://app:{}@db.internal/app", "s3cr" + "Et" + made_up(8)),
        ("redis", "redis://:{}@cache:6379/0", made_up(20)),
        ("https", "clone https://ann:{}@git.internal/x.git", made_up(16)),
        ("private key", "the key\n{}\nis old", _pem("")),
        ("rsa key", "{}", _pem("RSA ")),
        ("openssh key", "{}", _pem("OPENSSH ")),
        ("env", "DB_PASSWORD={}", "correct" + "horse9"),
        ("env of letters", "MYSQL_PASSWORD={}", "correct" + "horsebattery"),
        ("yaml", "password: {}", "hunter" + "2zebra"),
        ("quoted", 'password = "{}"', "tr0ub4dor" + "and3"),
        ("json", '{"client_secret": "{}"}', made_up(32)),
        ("api key", "api_key: {}", made_up(32)),
        ("camel", "dbPassword: '{}'", "zebra" + "Moon42"),
        ("php", "$dbPasswd => '{}'", "zebra" + "Moon43"),
        ("spoken", "The password is {} for staging.", "Zebra" + "Moon!42"),
        ("digits", "password: {}", "4711" + "081599"),
        ("sentence", "The password of the staging server is {}, as ever.", "Walnut-" + "Tram-81"),
        ("words", 'The passphrase of the disk is "{}".', "seven otters " + "paddle north"),
        ("key of a service", "My api key for the weather is {} now", "8e20-" + "birch-c4f7"),
        ("before its noun", "It has {} as its password.", "qwerty" + "1234"),
        ("login", "hey the wiki login is admin / {}, change it", "hunter" + "22"),
        ("card", "Her bank card PIN is {}.", "04" + "17"),
        ("gate", "gate code is {} then the hash key", "90" + "36"),
        ("alarm", "The alarm at the shed is switched off with {}.", "25" + "80"),
        ("German", "Das Passwort für den Testserver lautet {}.", "Wach" + "older"),
        ("German PIN", "die Geheimzahl seiner Karte ist {}", "77" + "31"),
        ("Spanish", "la contraseña del router es {}, como siempre", "naranja" + "55"),
        ("French", "Le mot de passe du wifi est {}.", "Muguet" + "-1905"),
        ("Chinese", "测试服务器的密码是 {}。", "Meihua" + "-2019"),
        ("curl", "curl -u lager:{} https://bestand.lan", "Kuckucks" + "uhr"),
        ("mysql", "mysql -uroot -p{} shipments", "Rotter" + "dam!"),
        ("sshpass", "sshpass -p {} ssh pi@10.0.4.17", "zebra" + "crossing"),
        ("option", "wget --user=potter --password={} ftp://x", "kiln" + "-1240"),
        ("archive", "7z x pay.7z -p{} -o/tmp/pay", "taji" + "naste"),
        ("basic header", "Authorization: Basic {} it is", "bGFnZXI6R2FiZWw" + "5OQ=="),
        ("own header", "with X-Jeton: {} it answers", "mC9zL3xH" + "7wRt5G"),
    )
}

INNOCENT: Final = (
    "password: see vault",
    "token: <your-token>",
    "api_key: YOUR_API_KEY",
    "Set PASSWORD=changeme before the first start",
    "password=$DB_PASSWORD is read from the environment",
    "password: ${DB_PASSWORD}",
    "OPENAI_API_KEY=sk-...",
    "export ANTHROPIC_API_KEY=sk-ant-your-key-goes-here",
    "The example id of the manual is AKIA" + "IOSFODNN7EXAMPLE",
    "Commit 2fc01319f7b1c0a84ddc2b1d6a5c3f1e7a9b8c7d fixed it",
    "Fixed in 2fc0131",
    "sha256:" + "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "The request id was 550e8400-e29b-41d4-a716-446655440000",
    "The memory mem_38G14A31WKSQK says so",
    "max_tokens: 32000 and temperature: 0.7",
    "The token budget is 1400 tokens",
    "Passwords are hashed with argon2id and 64 MB",
    "password: argon2id",
    "The password must have at least 12 characters",
    "The password is required",
    "password: required",
    "Secret: none",
    "password = getpass.getpass()",
    "token = tokenizer.encode(text)",
    "secret = os.environ['APP_SECRET']",
    "self.password = password",
    "api_key = settings.api_key",
    "authorization: Bearer <token>",
    "Send the header Authorization: Bearer ${TOKEN}",
    "Basic authentication is off, bearer tokens are on",
    "postgresql://user:password@localhost/db",
    "postgres://postgres:postgres@localhost:5432/test",
    "redis://localhost:6379/0",
    "ssh://git@github.com:22/ann/project.git",
    "mail ann@example.org about https://example.org:8080/path@v2",
    "PWD=/home/ann/project",
    "sk-learn is called scikit-learn and not sk-learn-contrib-something",
    "The primary key is (tenant_id, id); the foreign key is deferred",
    "Rotate the access key every 90 days",
    "The public key begins with ssh-ed25519",
    "-----BEGIN PUBLIC KEY-----",
    "We forgot the password again, ask Ann",
    "data:image/png;base64,iVBORw0KGgo=",
    "password: ********",
    "token: xxxxxxxxxxxxxxxx1",
    "ghp_" + "x" * 36,
    "CSRF token: checked in middleware since version 2",
    "secret santa: Tuesday",
    "The password of the staging database is stored in Vault under kv/staging/pg",
    "Passwords must have at least twelve characters",
    "The password is case-sensitive, wrong or expired.",
    "The passphrase is asked for at boot, then the disk mounts",
    "Who has the PIN of the safe? The code is known to Tom",
    "error code: 5003, postal code 80331 and status code is 4041",
    "The access token is a JWT signed with RS256",
    "log in with GitHub and OAuth2, or as admin / ask Tom",
    "Das Passwort ist abgelaufen, frag Henrike",
    "La clave es insistir, la contraseña es obligatoria.",
    "Le mot de passe est rangé dans Vault, le code postal est 75011",
    "密码至少十二位 存在 Vault 里",
    "mysql -p asks for the password; curl -u takes user and password",
    'curl -u "$USER:$PASS" https://x and curl -u user:password https://x',
    "sshpass -p is insecure, --password=<password> as well",
    "docker run -p 8080:80 nginx",
    "Authorization: Basic is switched off",
    "X-API-Key: ${KEY}",
    "Data at rest is encrypted with AES-256-GCM, the tunnel with ChaCha20-Poly1305.",
    "pw reset. We store name, password hash. The password is correct.",
    "The form has email, password fields. Bob forgot his pw again.",
    "La clave es Postgres.",
    "The door sensor is on GPIO pin 1024, the order code for the safe is 112233",
    "X-Idempotency-Key: order-4711-retry, X-Routing-Key: orders.eu1.v2",
    "az login && az aks create -g rg -n x -p basic; mongo -p 27017",
)
