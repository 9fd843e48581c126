"""Names that many unrelated things have: regions, environments, columns, roles, usual files.

Two texts about "us-east-1", `user_id` or "the web server" need not be about the same thing. A name
is distinctive if at least one of its words is none of these.
"""

from collections.abc import Mapping
from typing import Final

from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.products import ALIASES, COMMON_WORDS, PRODUCTS, SERVERS

HEADS: Final[Mapping[str, str]] = {
    form: words.split()[0]
    for words in (
        "service svc services",
        "server servers",
        "node nodes",
        "host hosts",
        "cluster clusters",
        "db database databases dbs",
        "queue queues",
        "cache caches",
        "broker brokers",
        "bus",
        "gateway gateways",
        "proxy proxies",
        "api apis",
        "worker workers",
        "scheduler schedulers",
        "cron",
        "job jobs",
        "pipeline pipelines",
        "bucket buckets",
        "volume volumes",
        "app apps application applications",
        "portal portals",
        "frontend frontends ui",
        "backend backends",
        "endpoint endpoints",
        "webhook webhooks",
        "daemon daemons",
        "registry registries",
        "replica replicas",
        "shard shards",
        "controller controllers",
        "balancer balancers",
    )
    for form in words.split()
}
"""Nouns for running things; the first form of each is used for all."""
_GENERIC: Final = frozenset(
    # Regions and zones of clouds.
    "us eu ap sa ca me af il cn mx uk emea apac asia europe africa america australia canada brazil"
    " india japan korea france germany gov north south east west central northeast northwest"
    " southeast southwest northcentral southcentral region regions zone zones az global"
    " datacenter dc nyc sfo ams sgp lon fra tor blr syd fsn nbg ash"
    # Environments.
    " prod production preprod stage staging dev develop development test tests testing qa uat demo"
    " sandbox live canary preview ci cd local localhost env environment"
    # Times.
    " monday tuesday wednesday thursday friday saturday sunday january february march april june"
    " july august september october november december daily nightly weekly monthly hourly yearly"
    " night morning evening today cron scheduled periodic"
    # Roles and qualities that every system has.
    " web www app application api rest graphql rpc grpc http https tcp udp ip tls ssl dns get"
    " post patch head options client server service frontend backend front end ui mobile desktop"
    " cloud platform system core base common shared default main master root admin internal data"
    " database db sql storage file files object message messages event events task tasks job"
    " jobs queue worker workers batch background async build deploy deployment release load"
    " reverse ingress read write node host cluster container compose pod machine vm instance"
    " gateway public private static generic simple model models monitoring metrics logging log"
    " logs debug health healthz status ping ready live page site code source src lib libs bin"
    " usr opt home tmp temp var etc dev null share mnt proc run docs doc"
    # Parts of identifiers, settings and URLs.
    " id ids uuid key keys name names type types url uri path dir port level format mode size"
    " count number max min limit timeout secret token password username date time timestamp"
    " value values total index flag enabled version state config configs configuration settings"
    " setting options params conf cfg ini env init main utils util helpers helper constants"
    " readme changelog license contributing makefile dockerfile justfile package requirements"
    " setup lock mod sum home error errors err exception warning failure code org com net io"
    " html css js ts tsx jsx py rb go rs java kt php cs cpp sh md rst txt toml yaml yml json csv"
    " xml pem crt gitignore dockerignore bashrc zshrc npmrc conftest"
    # Numbers in letters.
    " v x rc alpha beta one two first second".split()
)
_REGION: Final = lazy_pattern(
    r"(?:north|south|east|west|central|us|eu|uk|uae|europe|asia|india|japan|korea|australia|brazil"
    r"|canada|france|germany|norway|sweden|africa){2,3}"
)
"""Regions in one word: "eastus"."""
_COLUMN: Final = lazy_pattern(
    r"(?:is|has|was|can|num|created|updated|deleted|modified|started|finished|expires|expired)_\w+"
    r"|\w+_(?:ids?|uuid|pk|fk|key|keys|at|on|by|ts|date|time|timestamp|name|names|type|types|status"
    r"|state|code|count|number|num|no|flag|url|uri|email|hash|value|values|index|version|path"
    r"|total|amount|price|size|length|address|text|title|description)"
)
"""Columns and fields, of which many tables have one of the same name."""
_WORDS: Final = lazy_pattern(r"[^\W\d_]+")
_NUMBERED: Final = lazy_pattern(r"(?:[a-z0-9]+-)*(?P<role>[a-z]+)(?P<hyphen>-?)\d+")
_ROLES: Final = frozenset(HEADS) | frozenset("web vm machine pod".split())


def is_generic(key: str) -> bool:
    """Return whether a name consists of words that many unrelated names have.

    A role with a number is a machine: "db1", "prod-web-2".
    """
    numbered = _NUMBERED.fullmatch(key)
    if (numbered and numbered["role"] in _ROLES) or is_server(key):
        return False
    *first, last = _WORDS.findall(key.casefold()) or [""]
    own = [word for word in first if not _is_common(word)]
    return not own and (_is_common(last) or last in HEADS)


def is_server(key: str) -> bool:
    """Return whether a name is that of a machine after what runs on it: "kafka-3"."""
    numbered = _NUMBERED.fullmatch(key)
    return numbered is not None and numbered["hyphen"] != "" and numbered["role"] in SERVERS


def is_of_product(key: str) -> bool:
    """Return whether all that is distinctive in a name is a product: "the Redis cache"."""
    words = _WORDS.findall(key.casefold())
    own = [word for word in words if not _is_common(word) and word not in HEADS]
    return bool(own) and all(map(_is_product, own))


def is_column(written: str) -> bool:
    """Return whether an identifier reads like a column: `user_id`, `created_at`."""
    return _COLUMN.fullmatch(written) is not None


def _is_common(word: str) -> bool:
    return word in _GENERIC or len(word) == 1 or _REGION.fullmatch(word) is not None


def _is_product(word: str) -> bool:
    return ALIASES.get(word, word) in PRODUCTS and word not in COMMON_WORDS
