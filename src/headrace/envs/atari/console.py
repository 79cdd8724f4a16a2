"""The emulator with a game in it, and the two ways to save it: by its own state, and by what was played."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from pathlib import Path

from ale_py import Action, ALEInterface, ALEState, LoggerMode

_PROCESSOR = b"M6502"  # how the name of the part begins that holds the processor, in the emulator's state
_REGISTERS = 4 * (6 + 7)  # bytes: numbers and flags that follow the name
_STOPPED = 1  # the bit of the next number that says that the processor was stopped, as the end of a frame does


class Console(ALEInterface):
    """An emulator that repeats no action by itself: what it would repeat is not among what it can save."""

    def __init__(self, rom: Path, seed: int) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        super().__init__()
        self._rom = rom
        self.setInt("random_seed", seed)
        self.setFloat("repeat_action_probability", 0.0)
        self.loadROM(rom)

    def save(self) -> str | None:
        """The emulator's state; None within a frame, as where the beam is and what it has drawn are not part of it."""
        state = self.cloneState(include_rng=True).serialize()
        return b64encode(state).decode() if frame_is_whole(state) else None

    def restore(self, saved: str) -> None:
        """Makes the console what it was; its picture is drawn anew in the next frame, as the state does not hold it."""
        # Until it has played a frame, an emulator keeps something of its start: Q*bert would go on differently.
        self.act(Action.NOOP)
        self.restoreState(ALEState(b64decode(saved)))


class ReplayedConsole(Console):
    """Saved by the actions since the game began, which are played again. Every game is begun in a new console."""

    def __init__(self, rom: Path, seed: int) -> None:
        super().__init__(rom, seed)
        self._played = bytearray()

    def reset_game(self) -> None:
        self.loadROM(self._rom)
        super().reset_game()
        self._played.clear()

    def act(self, action: Action) -> int:  # type: ignore[override]  # a paddle's strength would have to be kept too
        self._played.append(action.value)
        return super().act(action)

    def save(self) -> str:
        return b64encode(zlib.compress(self._played)).decode()

    def restore(self, saved: str) -> None:
        self.reset_game()
        for number in zlib.decompress(b64decode(saved)):
            self.act(Action(number))


def frame_is_whole(state: bytes) -> bool:
    """Whether the emulator was saved between two frames.

    It gives up waiting for the end of a frame after 25,000 instructions, and goes on with it the next time: a game
    that thinks for longer without drawing is found within one.
    """
    name = state.index(_PROCESSOR)
    length = int.from_bytes(state[name - 4 : name], "little")
    return bool(state[name + length + _REGISTERS] & _STOPPED)
