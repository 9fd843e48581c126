"""Sessions of Claude Code, as files for tests that import chats."""

import json
from pathlib import Path


def write_session(file: Path, *texts: str, title: str | None = None) -> Path:
    """Write a session in which the user and the assistant take turns."""
    records: list[object] = [
        {
            "type": sender,
            "message": {"role": sender, "content": text},
            "uuid": f"u-{number}",
            "timestamp": f"2026-03-01T09:00:{number:02d}.000Z",
            "sessionId": "s-1",
        }
        for number, text in enumerate(texts)
        for sender in (("user", "assistant")[number % 2],)
    ]
    if title is not None:
        records.append({"type": "custom-title", "customTitle": title, "sessionId": "s-1"})
    file.write_text("".join(json.dumps(one) + "\n" for one in records), "utf-8")
    return file
