"""`brain embeddings`: moves a store to another embedder while it is in use."""

from typing import Annotated

import typer

from commonbrain.administration.embedding_spaces import ServingComparison
from commonbrain.cli.commands import Json
from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.groups import CommandGroup
from commonbrain.cli.terminal import print_line, print_table, print_value, progress_bar
from commonbrain.model.escaping import pluralize

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Vector spaces: move a store to another embedder while everybody works.",
)

_EMBEDDER = typer.Argument(
    metavar="[SPACE]",
    help="minilm, multilingual, onnx:FOLDER or FAMILY/MODEL/DIMENSIONS; else that of "
    "COMMONBRAIN_EMBEDDER_NEXT.",
)
Embedder = Annotated[str | None, _EMBEDDER]
Space = Annotated[str, typer.Argument(metavar="SPACE", help="As `brain embeddings list` names it.")]


@app.command("list")
def list_spaces(context: typer.Context, *, as_json: Json = False) -> None:
    """List the embedding spaces of the store, which one serves, and the vectors each is missing."""
    state: GlobalOptions = context.obj
    with state.open() as brain:
        spaces = brain.spaces()
    if as_json:
        print_value(spaces)
        return
    print_table(
        *("space", "dimensions", "state", "missing", "index"),
        rows=(
            (
                *(space.name, f"{space.dimensions}", space.state, f"{space.missing:,}"),
                "yes" if space.is_indexed else "none",
            )
            for space in spaces
        ),
    )


@app.command()
def build(context: typer.Context, space: Embedder = None, *, as_json: Json = False) -> None:
    """Add vectors of another embedder to the existing ones; a second run resumes."""
    state: GlobalOptions = context.obj
    with state.open() as brain, progress_bar("embedding", is_shown=not as_json) as move:
        result = brain.spaces.build(space, on_progress=move)
    if as_json:
        print_value(result)
        return
    message = (
        f"{result.space}: embedded {_memories(result.embedded)}, {result.missing:,} lack vectors."
    )
    print_line(f"{message} Compare it, then `brain embeddings switch {result.space}`.")


@app.command()
def compare(context: typer.Context, space: Embedder = None, *, as_json: Json = False) -> None:
    """Repeat past queries in the serving space and in another one; nothing is changed."""
    state: GlobalOptions = context.obj
    with state.open() as brain, progress_bar("asking", is_shown=not as_json) as move:
        result = brain.spaces.compare(space, on_progress=move)
    if as_json:
        print_value(result)
        return
    print_table(
        *("space", "MRR of what helped", "unanswered", "median"),
        rows=(
            (
                figures.space,
                "no marks" if figures.mrr is None else f"{figures.mrr:.3f}",
                f"{figures.unanswered:.0%}",
                f"{figures.median_ms:.1f} ms",
            )
            for figures in (result.serving, result.other)
        ),
    )
    print_line("\n".join(_render_comparison(result)))


@app.command()
def switch(
    context: typer.Context,
    space: Space,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Make another space serve, at once; the same command switches back."""
    state: GlobalOptions = context.obj
    with state.open() as brain:
        result = brain.spaces.switch(space, dry_run=dry_run)
    if as_json:
        print_value(result)
    elif result.is_dry_run:
        pending = f"{_memories(result.missing)} lack vectors in it"
        print_line(f"Would let {result.after} serve in the place of {result.before}: {pending}.")
    else:
        print_line(f"{result.after} serves. Restart every program with its embedder.")
        print_line(
            f"{result.before} stays: `brain embeddings switch` goes back, `drop` removes it."
        )


@app.command()
def drop(
    context: typer.Context,
    space: Annotated[
        str | None,
        typer.Argument(metavar="[SPACE]", help="Without it, what an interruption left is deleted."),
    ] = None,
    *,
    compact: Annotated[
        bool,
        typer.Option("--compact", help="Free the disk space; other processes wait."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete the vectors of a space that does not serve. This cannot be undone."""
    state: GlobalOptions = context.obj
    with state.open() as brain, progress_bar("deleting", is_shown=not as_json) as move:
        result = brain.spaces.drop(space, compact=compact, on_progress=move)
    if as_json:
        print_value(result)
    else:
        print_line(f"Deleted {pluralize(result.vectors, 'vector', many='vectors')}.")


def _render_comparison(result: ServingComparison) -> list[str]:
    lines = [
        f"{pluralize(result.questions, 'question', many='questions')}, {result.marked:,} with "
        f"marks; of the first ten, both give {result.overlap:.0%}."
    ]
    if result.gain is not None:
        lowest, highest = result.gain
        lines.append(f"{result.other.space} gains {lowest:+.3f} to {highest:+.3f} of MRR (95%).")
    better = result.better
    lines.append(f"{better} is better." if better else "The difference is not significant.")
    return lines


def _memories(count: int) -> str:
    return pluralize(count, "memory", many="memories")
