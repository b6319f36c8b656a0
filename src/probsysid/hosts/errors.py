"""What goes wrong among hosts."""


class HostError(RuntimeError):
    """Another host is lost, or the hosts are out of step; the message says which and why.  Checkpoints stay."""

    @property
    def sentence(self) -> str:
        """The message with a full stop."""
        return str(self) if str(self).endswith((".", "?")) else f"{self}."
