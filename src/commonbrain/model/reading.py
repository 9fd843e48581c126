"""What the text of a memory says, as recall asks for it."""

from commonbrain.model.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What recall asks of a text, read once when it is written, by `text.reading.read_text`."""

    words: str = ""
    """The members of `stems`, sorted and joined by blanks; most recalls need few of them."""
    subject_words: str = ""
    """The members of `subject`, likewise."""
    question_share: float = 0.0
    """Share of the sentences that are questions, 0..1."""
    names_time: bool = False
    """Whether a word of the body may name a time."""
    times: tuple[tuple[int, int], ...] = ()
    """The periods that the text names: first millisecond, and the one after the last."""

    @property
    def stems(self) -> frozenset[str]:
        """The stems of the words of text and keywords, and its code as it is written."""
        return frozenset(self.words.split())

    @property
    def subject(self) -> frozenset[str]:
        """The words that say what the first clause is about; empty if it does not say."""
        return frozenset(self.subject_words.split())

    def is_of_another_thing(self, other: "Reading") -> bool:
        """Return whether each first subject has a word that the other text does not have."""
        ours, theirs = self.subject, other.subject
        return not (ours <= other.stems or theirs <= self.stems)
