"""Markdown: sections and bullets become memories that stand alone; no text is lost."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commonbrain.ingestion.validation import Valid, validate
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import TaskDetail, TaskStatus, kind_and_label
from commonbrain.model.limits import NAME_CHARS_MAX, SOURCE_REF_CHARS_MAX
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Content, Unreadable
from commonbrain.transfer.importers import IMPORTERS
from commonbrain.transfer.importers.sections import sections, split_blocks
from tests.transfer.headings import HEADINGS

NOTES = Path(__file__).parent / "samples" / "notes"


def read(source: Path) -> list[Content]:
    return [piece.content for piece in IMPORTERS["markdown"].read(source)]


def read_text(folder: Path, text: str) -> list[Content]:
    source = folder / "notes.md"
    source.write_text(text)
    return read(source)


def drafts(contents: list[Content]) -> list[Draft]:
    return [content for content in contents if isinstance(content, Draft)]


def place(draft: Draft) -> str:
    """Return where a draft comes from, without the digest of its text."""
    return re.sub("[#:][0-9a-f]{8}(?:-[0-9]+)?$", "", draft.source_ref or "")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def words_read(contents: list[Content]) -> set[str]:
    texts = [content.body for content in contents if isinstance(content, Draft)]
    texts += [content.reason for content in contents if isinstance(content, Unreadable)]
    return {word for text in texts for word in words(text.replace("\\n", "\n"))}


@pytest.mark.requirement("MG-06")
def test_sections_and_bullets_of_a_memory_file_become_memories() -> None:
    memories = [
        (place(draft), draft.kind, draft.severity, draft.headline, draft.body)
        for draft in drafts(read(NOTES / "MEMORY.md"))
    ]
    when = "Harbour > Rules:\nWhen a berth is booked:\n"
    intro = "The harbour service books berths for ships."
    assert memories == [
        ("MEMORY.md", "fact", None, intro, intro),
        (
            "MEMORY.md#rules",
            "rule",
            "BLOCKER",
            "Rules: Never book a berth twice for one night",
            f"{when}**Never** book a berth twice for one night",
        ),
        (
            "MEMORY.md#rules",
            "rule",
            "PATTERN",
            "Rules: Ask the tide table first, the crane table second",
            f"{when}Ask the tide table first, the crane table second\n- the tide table wins",
        ),
        (
            "MEMORY.md#rules",
            "rule",
            "PATTERN",
            "Rules: Boats under five metres pay nothing at all",
            f"{when}Boats under five metres pay nothing at all",
        ),
        (
            "MEMORY.md#commands",
            "rule",
            "PATTERN",
            "Commands: Run it again after each storm.",
            "Harbour > Commands:\n```bash\n# build the tables\nmake tables\n```\n\n"
            "Run it again after each storm.",
        ),
        (
            "MEMORY.md#tools",
            "fact",
            None,
            "Tools: tide",
            "Harbour > Tools:\n- tide\n- crane\n- rope",
        ),
        (
            "MEMORY.md#outage-of-last-spring",
            "incident",
            None,
            "The booking page crashed because the tide table had no row for a leap day.",
            "Harbour > Outage of last spring:\n"
            "The booking page crashed because the tide table had no row for a leap day.",
        ),
        (
            "MEMORY.md#follow-up",
            "task",
            None,
            "Follow-up: Add the missing row.",
            "Harbour > Outage of last spring > Follow-up:\n"
            "1. Add the missing row.\n2. Tell the pilots.",
        ),
        (
            "MEMORY.md#always-close-the-lock-gate-before-noon",
            "rule",
            "PATTERN",
            "Harbour: Always close the lock gate before noon",
            "Harbour:\nAlways close the lock gate before noon",
        ),
        (
            "MEMORY.md#old-name",
            "fact",
            None,
            "Old name: It was once called Quay.",
            "Harbour > Old name:\nIt was once called Quay.",
        ),
    ]


@pytest.mark.requirement("MG-06")
def test_section_that_is_too_short_is_reported_with_its_text() -> None:
    (short,) = [c for c in read(NOTES / "MEMORY.md") if isinstance(c, Unreadable)]
    assert short.where == "MEMORY.md#tiny"
    assert short.reason == r"shorter than 20 characters: 'Harbour > Tiny:\nno'"


def test_files_of_a_folder_are_read_in_the_order_of_their_paths() -> None:
    references = [place(draft) for draft in drafts(read(NOTES))]
    assert references[-3:] == [
        "guides/pilots.md",
        "guides/pilots.md#pilots",
        "guides/pilots.md#pilots-1",
    ]
    assert references[0] == "MEMORY.md"


@pytest.mark.requirement("MG-06")
def test_quoted_and_deep_headings_stay_in_the_text_of_their_section() -> None:
    _, pilots, meeting = drafts(read(NOTES / "guides" / "pilots.md"))
    assert "> # not a heading" in pilots.body
    assert "##### A deep heading stays in the text\n\n| ship | pilot |" in pilots.body
    assert "[tower]: https://harbour.example/tower" in meeting.body


@pytest.mark.requirement("MG-06")
def test_drafts_have_the_tags_and_confidence_of_notes() -> None:
    first = drafts(read(NOTES / "MEMORY.md"))[0]
    assert (first.tags, first.confidence) == (("memory", "memory-import"), 0.7)


def test_reading_twice_gives_the_same_contents_with_unique_references() -> None:
    assert read(NOTES) == read(NOTES)
    references = [draft.source_ref for draft in drafts(read(NOTES))]
    assert len(set(references)) == len(references)


def test_references_do_not_change_when_text_is_inserted_before(tmp_path: Path) -> None:
    text = (
        "- The crane fell over in the storm\n- The lock jammed at noon\n- The lock jammed at noon\n"
    )
    before = drafts(read_text(tmp_path, f"# Incidents\n\n{text}"))
    assert len({draft.source_ref for draft in before}) == 3
    more = "A word of introduction to the list.\n\n- The pilot overslept on Monday\n"
    after = drafts(read_text(tmp_path, f"# Incidents\n\n{more}{text}"))
    assert [draft.source_ref for draft in after][2:] == [draft.source_ref for draft in before]


def test_drafts_of_the_samples_are_valid_and_contain_every_word() -> None:
    for source in NOTES.rglob("*.md"):
        contents = read(source)
        assert all(isinstance(validate(draft), Valid) for draft in drafts(contents))
        text = source.read_text().rpartition("\n---\n")[2]
        assert set(words(text)) <= words_read(contents)


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["# One", "## Two", "### Three", "#### Four", "##### Five", "", "", "---", "```", "~~~"]
        ),
        st.sampled_from(
            ["- alpha beta gamma delta", "- mu", "  - nested one", "1. first", "> said"]
        ),
        st.sampled_from(["[x]: http://example.org/y", "| a | b |", "|---|---|", "    code", "\t-"]),
        st.text(alphabet="abc #*-`>\t:[]|1.é", max_size=30),
    ),
    max_size=25,
)


@given(lines=LINES)
@example(lines=["# One", "-", "    code", "  - nested one"])
def test_sections_contain_every_word_of_a_text(lines: list[str]) -> None:
    text = "\n".join(["opening words", *lines])
    words_found = [
        word
        for section, _ in sections(text)
        for piece in (*section.path, *(f"{p.lead} {p.words}" for p in split_blocks(section.blocks)))
        for word in words(piece)
    ]
    assert set(words(text)) <= set(words_found)


def test_long_section_is_split_between_blocks_into_valid_drafts(tmp_path: Path) -> None:
    paragraphs = [f"and paragraph{n} " + "word " * 120 for n in range(6)]
    contents = drafts(read_text(tmp_path, "# Long\n\n" + "\n\n".join(paragraphs)))
    assert [place(draft) for draft in contents] == ["notes.md#long"] * 3
    assert all(isinstance(validate(draft), Valid) for draft in contents)
    assert {"fact"} == {draft.kind for draft in contents}


def test_long_list_is_split_between_its_items(tmp_path: Path) -> None:
    items = [f"{n}. " + "step " * 100 for n in range(1, 6)]
    contents = drafts(read_text(tmp_path, "# Long\n" + "\n".join(items)))
    assert [draft.body.count("step") for draft in contents] == [200, 200, 100]
    assert "1. step" in contents[0].body
    assert "\n2. step" in contents[0].body


def test_block_too_long_for_a_statement_becomes_events(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for count in [1_000, 30_000]:
        with subtests.test(count=count):
            block = "\n".join(f"w{n} and more" for n in range(count))
            contents = drafts(read_text(tmp_path, f"# Log\n```\n{block}\n```\n"))
            assert {draft.kind for draft in contents} == {"event"}
            assert all(isinstance(validate(draft), Valid) for draft in contents)
            assert set(words(block)) <= words_read(list(contents))


def test_section_of_several_dated_updates_becomes_an_event(tmp_path: Path) -> None:
    text = "# State\nUpdated 2026-01-01: one berth. Updated 2026-02-01: two berths.\n"
    (draft,) = drafts(read_text(tmp_path, text))
    assert draft.kind == "event"
    assert isinstance(validate(draft), Valid)


def test_horizontal_rule_does_not_become_a_memory(tmp_path: Path) -> None:
    bullets = "\n".join(f"- statement number {n} of the list" for n in range(3))
    contents = read_text(
        tmp_path, f"# Rules\n{bullets}\n\n---\n\n# Next\n\nIt goes on from here.\n"
    )
    assert [isinstance(content, Draft) for content in contents] == [True] * 4


def test_line_larger_than_a_memory_is_split(tmp_path: Path) -> None:
    contents = drafts(read_text(tmp_path, "x" * 50_000))
    assert "".join(draft.body.replace("\n", "") for draft in contents) == "x" * 50_000
    assert all(isinstance(validate(draft), Valid) for draft in contents)


def test_tags_and_references_stay_within_their_length_limits(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d" * 100] * 6)
    deep.mkdir(parents=True)
    (deep / ("n" * 200 + ".md")).write_text("Something that is long enough.")
    (draft,) = drafts(read(tmp_path))
    assert len(draft.source_ref or "") == SOURCE_REF_CHARS_MAX
    assert len(draft.tags[0]) == NAME_CHARS_MAX


def test_undecodable_and_empty_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_bytes(b"fine so far \xff")
    (tmp_path / "empty.md").write_text(" \n")
    assert read(tmp_path) == [
        Unreadable(where="bad.md", reason="It is not UTF-8 text, from byte 12 on."),
        Unreadable(where="empty.md", reason="The file is empty."),
    ]


def test_hidden_folders_node_modules_and_other_files_are_skipped(tmp_path: Path) -> None:
    for name in (".git/a.md", "node_modules/b.md", "sub/c.md", "sub/d.txt", "sub/E.MD"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("Something that is long enough.")
    references = [place(draft) for draft in drafts(read(tmp_path))]
    assert references == ["sub/E.MD", "sub/c.md"]


def test_links_are_followed_once_and_never_out_of_the_folder(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "far.md").write_text("Something that is long enough.")
    (root / "CLAUDE.md").write_text("Something that is long enough.")
    (root / "AGENTS.md").symlink_to("CLAUDE.md")
    (root / "circle").symlink_to(root)
    (root / "gone.md").symlink_to("nothing.md")
    (root / "out").symlink_to(outside)
    contents = read(root)
    assert [place(draft) for draft in drafts(contents)] == ["AGENTS.md"]
    assert [c for c in contents if isinstance(c, Unreadable)] == [
        Unreadable(where="gone.md", reason="It is not a file."),
        Unreadable(where="out", reason="It is a link that leaves the folder."),
    ]


def test_empty_folder_and_missing_source_are_refused(tmp_path: Path) -> None:
    for source in (tmp_path, tmp_path / "none"):
        with pytest.raises(InvalidInputError, match="neither a file nor a folder"):
            read(source)


def test_progress_rises_to_one() -> None:
    progress = [piece.progress for piece in IMPORTERS["markdown"].read(NOTES)]
    assert progress == sorted(progress)
    assert progress[-1] == 1.0


@pytest.mark.requirement("MG-06")
def test_project_of_a_file_in_a_repository_is_the_repository(tmp_path: Path) -> None:
    docs = tmp_path / "harbour" / "docs"
    docs.mkdir(parents=True)
    (tmp_path / "harbour" / ".git").mkdir()
    (docs / "a.md").write_text("Something that is long enough.")
    assert [draft.project for draft in drafts(read(docs))] == ["harbour"]


def claude_memory(home: Path, flat: str) -> Path:
    folder = home / ".claude" / "projects" / flat / "memory"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("Something that is long enough.")
    return folder


@pytest.mark.requirement("MG-06")
def test_memory_of_claude_code_belongs_to_the_project_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "code" / "my_app-2").mkdir(parents=True)
    flat = re.sub("[^A-Za-z0-9]", "-", str(tmp_path / "code" / "my_app-2"))
    (draft,) = drafts(read(claude_memory(tmp_path, flat)))
    assert draft.project == "my_app-2"


def test_project_of_a_deleted_folder_is_its_path_below_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    flat = re.sub("[^A-Za-z0-9]", "-", str(tmp_path / "gone" / "my-app"))
    (draft,) = drafts(read(claude_memory(tmp_path, flat)))
    assert draft.project == "gone-my-app"


def test_memory_of_claude_code_from_another_machine_belongs_to_its_project(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for flat, project in [
        ("-home-ada-shop", "shop"),
        ("-Users-ada-code-my-app", "my-app"),
        ("C--Users-ada-Documents-GitHub-till", "till"),
        ("-root-src-work-till", "till"),
        ("-srv-till", "srv-till"),
        ("-home-ada-code", "code"),
    ]:
        with subtests.test(flat=flat, project=project):
            (draft,) = drafts(read(claude_memory(tmp_path, flat)))
            assert draft.project == project


@pytest.mark.requirement("MG-06")
def test_each_bullet_and_independent_paragraph_is_a_memory(tmp_path: Path) -> None:
    contents = drafts(
        read_text(
            tmp_path,
            "## Harbour\n\n"
            "Berths are booked by radio on channel twelve.\n\n"
            "The crane is shared with the shipyard.\n\n"
            "It lifts forty tons, or twenty in a storm.\n\n"
            "- The lock opens at noon\n- Pilots live on the island\n",
        )
    )
    assert [(one.headline, one.body) for one in contents] == [
        (
            "Harbour: Berths are booked by radio on channel twelve.",
            "Harbour:\nBerths are booked by radio on channel twelve.",
        ),
        (
            "Harbour: It lifts forty tons, or twenty in a storm.",
            "Harbour:\nThe crane is shared with the shipyard.\n\n"
            "It lifts forty tons, or twenty in a storm.",
        ),
        ("Harbour: The lock opens at noon", "Harbour:\nThe lock opens at noon"),
        ("Harbour: Pilots live on the island", "Harbour:\nPilots live on the island"),
    ]


@pytest.mark.requirement("MG-17")
def test_heading_determines_kind_and_label_of_its_bullets(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    named = {"preference": ("rule", "preference"), "question": ("task", "question")}
    for type_, rows in HEADINGS.items():
        expected = kind_and_label(type_) or named[type_]
        for heading, line in rows:
            with subtests.test(heading=heading, type=type_):
                (draft,) = drafts(read_text(tmp_path, f"# Shop\n\n## {heading}\n\n- {line}\n"))
                assert (draft.kind, draft.label) == expected


@pytest.mark.requirement("MG-17")
def test_prohibition_and_checkbox_decide_the_kind_below_any_heading(tmp_path: Path) -> None:
    text = (
        "# Plan\n\n- Never deploy on a Friday evening\n- [ ] Order twelve new ropes\n"
        "- [x] Paint the crane yellow\n- Alpha in May, beta in July\n"
    )
    read_ = [(one.kind, one.severity, one.label) for one in drafts(read_text(tmp_path, text))]
    assert read_ == [
        ("rule", "BLOCKER", None),
        ("task", None, None),
        ("task", None, None),
        ("fact", None, "plan"),
    ]
    done = [one.detail for one in drafts(read_text(tmp_path, text))]
    assert done == [None, None, TaskDetail(status=TaskStatus.DONE), None]


@pytest.mark.requirement("MG-17")
def test_nested_bullets_tables_and_code_stay_whole_below_a_heading(tmp_path: Path) -> None:
    table = "| gate | key |\n|---|---|\n| north | 12 |\n| south | 14 |"
    code = "```\nmake tables\n\nmake gates\n```"
    nested = "The crane stops at noon\n  - the tide table has no row for it"
    text = f"## Known bugs\n\n- {nested}\n- The lock jams in each frost\n\n{table}\n\n{code}\n"
    bodies = [one.body for one in drafts(read_text(tmp_path, text))]
    assert [body.partition("\n")[2] for body in bodies] == [
        "The crane stops at noon\n- the tide table has no row for it",
        "The lock jams in each frost",
        f"{table}\n\n{code}",
    ]


@pytest.mark.requirement("MG-06")
def test_heading_named_after_an_openbrain_type_sets_kind_and_label(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for heading, kind, label in [
        ("Plan", "fact", "plan"),
        ("Release roadmap:", "fact", "plan"),
        ("Research findings", "fact", "research"),
        ("Decisions", "fact", "decision"),
        ("Architecture", "fact", "architecture"),
        ("Naming conventions", "rule", "convention"),
        ("Known bugs", "incident", "bug"),
        ("Plan of the harbour", "fact", None),
        ("Observations", "fact", None),
    ]:
        with subtests.test(heading=heading, kind=kind, label=label):
            text = f"# Shop\n\n## {heading}\n\n- The crane is painted yellow every spring\n"
            (draft,) = drafts(read_text(tmp_path, text))
            assert (draft.kind, draft.label) == (kind, label)


def test_front_matter_is_ignored_and_text_between_dashes_is_read(tmp_path: Path) -> None:
    (draft,) = drafts(read_text(tmp_path, "---\nNever leave the lock gate open.\n---\n"))
    assert "Never leave the lock gate open" in draft.body
    (rest,) = drafts(read_text(tmp_path, "---\nname: x\ntags:\n  - y\n---\nThe rest is kept here."))
    assert rest.body == "The rest is kept here."
