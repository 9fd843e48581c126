"""Names of well-known software and companies: things that a text can name, and never people."""

from collections.abc import Mapping
from typing import Final

SERVERS: Final = frozenset(
    # Stores, queues and search.
    "postgres mysql mariadb sqlite oracle mongodb mongo redis valkey memcached cassandra scylla"
    " dynamodb bigquery snowflake clickhouse elasticsearch opensearch solr qdrant pinecone weaviate"
    " kafka rabbitmq nats pulsar celery sidekiq debezium airflow spark flink hadoop couchdb etcd"
    " consul zookeeper neo4j influxdb timescale cockroachdb supabase firebase"
    # Proxies, builds, secrets and observation.
    " nginx apache caddy haproxy envoy istio traefik varnish jenkins gitlab vault keycloak"
    " prometheus grafana loki jaeger kibana logstash zipkin".split()
)
"""Products that run on machines of one's own, which are named after them: "kafka-3"."""
PRODUCTS: Final = SERVERS | frozenset(
    # Clouds and their tools.
    "cloudflare fastly akamai kubernetes"
    " docker podman helm terraform ansible puppet chef vagrant packer argo github"
    " bitbucket circleci travis buildkite dependabot renovate sonarqube codecov aws azure gcp"
    " heroku vercel netlify linux ubuntu debian fedora windows macos android ios okta auth0"
    # Observing, paying, talking.
    " datadog sentry splunk newrelic pagerduty"
    " opsgenie statuspage stripe paypal adyen twilio sendgrid mailchimp braintree klarna"
    " slack zoom discord jira confluence notion trello asana linear miro figma zendesk intercom"
    " salesforce hubspot shopify segment amplitude mixpanel"
    # Languages, frameworks, tools and models.
    " python java javascript typescript rust golang ruby php kotlin swift scala perl django flask"
    " fastapi rails laravel spring hibernate react angular vue svelte nextjs nodejs deno webpack"
    " vite babel eslint prettier pytest junit selenium playwright cypress gradle maven npm yarn"
    " pnpm poetry git pip conda numpy pandas pytorch tensorflow chrome firefox safari edge"
    " vscode pycharm"
    " cursor copilot claude codex gemini chatgpt openai anthropic ollama llama mistral excel"
    " word outlook powerpoint sharepoint teams"
    # Companies.
    " google microsoft amazon apple meta facebook netflix ibm intel nvidia amd cisco dell adobe sap"
    " twitter linkedin youtube reddit wikipedia".split()
)
ALIASES: Final[Mapping[str, str]] = {
    "postgresql": "postgres",
    "mongo": "mongodb",
    "k8s": "kubernetes",
    "node.js": "nodejs",
    "next.js": "nextjs",
}
"""Other names of the same thing."""
COMMON_WORDS: Final = frozenset(
    "oracle spark edge word excel teams linear notion segment safari swift rust ruby chef puppet"
    " spring flask react vault helm argo loki meta apple intel cursor poetry zoom slack stripe"
    " amazon windows gemini envoy consul babel perl java python deno nats conda git dell adobe sap"
    " celery pulsar cypress gradle solr miro flink".split()
)
"""Products with names that are also words: only a capital within a sentence marks the product."""
SPELLED_LIKE_CODE: Final = PRODUCTS.union(
    ALIASES,
    "coffeescript nosql graphql openapi openssl websocket websockets devops oauth oauth2"
    " cloudfront cloudwatch powershell iphone ipad latex huggingface stackoverflow intellij"
    " wordpress dataframe".split(),
)
"""Names that sentences spell like symbols; the added ones are too general to link two texts."""
