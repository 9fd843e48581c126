"""Replies as tables, panels and trees, by topic; `cli.render` lists the renderers."""
