"""What the conformance suite calls by its own names, carried by the shared server."""

from base64 import b64encode
from typing import Final

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

_PIXEL: Final = b64encode(b"\x89PNG\r\n\x1a\n").decode()
_SOUND: Final = b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode()
_IMAGE: Final = ImageContent(data=_PIXEL, mime_type="image/png")

server = MCPServer("example", log_level="WARNING")


def _resource(uri: str) -> EmbeddedResource:
    text = "This is an embedded resource content."
    return EmbeddedResource(
        resource=TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    )


@server.tool()
def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@server.tool(structured_output=False)
def test_image_content() -> list[ContentBlock]:
    """Give an image."""
    return [_IMAGE]


@server.tool(structured_output=False)
def test_audio_content() -> list[ContentBlock]:
    """Give a sound."""
    return [AudioContent(data=_SOUND, mime_type="audio/wav")]


@server.tool(structured_output=False)
def test_embedded_resource() -> list[ContentBlock]:
    """Give a resource."""
    return [_resource("test://embedded-resource")]


@server.tool(structured_output=False)
def test_multiple_content_types() -> list[ContentBlock]:
    """Give three sorts of content."""
    text = TextContent(text="Multiple content types test:")
    return [text, _IMAGE, _resource("test://mixed-content-resource")]


@server.tool()
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """Give a text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """Give bytes."""
    return b"\x89PNG"


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:  # noqa: A002 the template names it so
    """Give what a template names."""
    return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'


@server.prompt()
def test_simple_prompt() -> str:
    """Give a prompt."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Give a prompt with what was given."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt(name="test_prompt_with_embedded_resource")
def prompt_with_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 the suite's name
    """Give a prompt with a resource."""
    request = UserMessage("Please process the embedded resource above.")
    return [UserMessage(_resource(resourceUri)), request]


@server.prompt(name="test_prompt_with_image")
def prompt_with_image() -> list[UserMessage]:
    """Give a prompt with an image."""
    return [UserMessage(_IMAGE), UserMessage("Please analyze the image above.")]
