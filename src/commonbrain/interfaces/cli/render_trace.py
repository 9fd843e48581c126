"""How a trace looks to people: a tree, and under it what the evidence is worth."""

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from commonbrain.flows.trace.told import BY_WORDS, Traced
from commonbrain.interfaces.operations.trace import step_line, summary_lines


def traced(reply: Traced) -> RenderableType:
    """Draw each thing that was asked about as a tree, with what led to it or came of it."""
    trees: list[Tree] = []
    branches: list[Tree] = []
    for one in reply.steps:
        style = "dim" if one.via == BY_WORDS else "bold" if one.is_root or not one.depth else ""
        line = Text(step_line(one), style=style)
        # A step belongs to the last one that is nearer.
        del branches[one.depth :]
        if branches:
            branches.append(branches[-1].add(line))
        else:
            branches = [Tree(line)]
            trees += branches
    told = (Text(line, style="yellow" if _is_doubt(line) else "") for line in summary_lines(reply))
    return Group(*trees, *told)


def _is_doubt(line: str) -> bool:
    return line.startswith(("gap: ", "limit: "))
