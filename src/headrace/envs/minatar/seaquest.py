"""MinAtar's Seaquest as pure functions of a state, an action and the random outcomes of the step.

The package keeps lists of objects. Here everything but the divers lives on the board, cell by cell, which is exact:

*Enemies.* All enemies of a row swim the same way (a spawn against the traffic is dropped), so the direction belongs to
the row. Two enemies of one row never share both cell and move timer. For after a move at step t the next one is at
t + m + 1, where the move interval m is common to all and never falls by more than 1 in a step: later moves never
overtake earlier ones, and so the moves of two enemies alternate for ever. While m can still fall (the second, fourth
and sixth surfacing lower it from 5 to 2) the spawn interval is at least 15 (it starts at 20 and falls by one per
surfacing): the elder has moved twice before the younger is spawned, and stays at least a cell ahead. Afterwards m is
constant, and a lead of at least one step is kept: same cell, other timer. So a cell has room for one enemy per value
of the move timer, and of those in a cell the first in the package's list, the oldest, has the lowest move timer.
One that swims into a bullet finds no other enemy there, which the bullet would have hit: it is the one to be removed.

*The player's bullets.* They are fired at least 5 steps apart and leave the board within 9 steps of being fired: at most
two exist. They are as fast as the player, who stands still to fire, so a bullet stays ahead of the player and of every
later one: no two end a step in the same cell, none is where the player is, and the order of treating them is of no
consequence. (Removing by equality, the package may drop the older of two bullets instead of the one that hit; then it
moves the other once more, which comes to the same.)

*Enemy bullets* disappear only over the edge and kill by their place alone, so equal ones may be merged.

*Divers* come every 30 steps and move every 6, so all move in the same steps; one is gone 59 steps after it came: at
most two exist.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

CHANNELS = 10
ACTIONS = (0, 1, 2, 3, 4, 5)
LEFT, UP, RIGHT, DOWN, FIRE = 1, 2, 3, 4, 5

SIZE = 10
SPAWN_INTERVAL, FASTEST_SPAWN = 20, 1
MOVE_INTERVAL, FASTEST_MOVE = 5, 2
DIVER_INTERVAL, DIVER_PERIOD = 30, 6
SHOT_INTERVAL = 5
FULL_OXYGEN, OXYGEN_PER_CELL = 200, 20
FULL_CREW = 6

# An enemy cell holds six fields of four bits, one per value of the move timer: 0 for nobody, FISH for a fish, and for
# a submarine one more than its shot timer. FISH is what no submarine shows: both upper bits.
FIELD, FIELD_BITS = 15, 4
FIELD_UNITS = 0x111111
FISH = 12
LOADED = 11

# A bullet cell holds one flag per direction of flight.
EASTBOUND, WESTBOUND = 1, 2


class Draws(NamedTuple):
    """What chance would decide in a step that spawned both an enemy and a diver."""

    enemy_right: Any
    enemy_is_sub: Any
    enemy_row: Any  # 1..8
    diver_right: Any
    diver_row: Any  # 1..8


class Divers(NamedTuple):
    """Two places for divers, the younger first."""

    present: Any
    x: Any
    y: Any
    right: Any


class State(NamedTuple):
    x: Any
    y: Any
    right: Any  # the way the player faces
    enemies: Any  # (10, 10) fields
    rightward: Any  # (10,) the way the enemies of a row swim
    shots: Any  # (10, 10) flags: the player's bullets
    torpedoes: Any  # (10, 10) flags: enemy bullets
    divers: Divers
    crew: Any  # rescued divers; -1 after surfacing with six, and lower still after surfacing again
    oxygen: Any
    surfaced: Any  # whether the present stay at the top is already accounted for
    shot_timer: Any
    enemy_timer: Any
    diver_timer: Any
    spawn_interval: Any
    move_interval: Any
    ramp: Any


def draw(key: Any) -> Draws:
    """All outcomes from one 32-bit word; a submarine has probability 1/3 to within 2^-25."""
    word = jax.random.bits(key, dtype=jnp.uint32)
    return Draws(
        enemy_right=(word & 1) == 1,
        enemy_is_sub=(word >> 8) < 2**24 // 3,
        enemy_row=(1 + (word >> 1 & 7)).astype(jnp.int32),
        diver_right=(word >> 4 & 1) == 1,
        diver_row=(1 + (word >> 5 & 7)).astype(jnp.int32),
    )


def reset(draws: Draws) -> State:
    """The start of an episode; chance has no part in it."""
    del draws
    board = jnp.zeros((SIZE, SIZE), jnp.int32)
    pair, nobody = jnp.zeros(2, jnp.int32), jnp.zeros(2, bool)
    return State(
        x=jnp.int32(5),
        y=jnp.int32(0),
        right=jnp.bool_(False),
        enemies=board,
        rightward=jnp.zeros(SIZE, bool),
        shots=board,
        torpedoes=board,
        divers=Divers(nobody, pair, pair, nobody),
        crew=jnp.int32(0),
        oxygen=jnp.int32(FULL_OXYGEN),
        surfaced=jnp.bool_(True),
        shot_timer=jnp.int32(0),
        enemy_timer=jnp.int32(SPAWN_INTERVAL),
        diver_timer=jnp.int32(DIVER_INTERVAL),
        spawn_interval=jnp.int32(SPAWN_INTERVAL),
        move_interval=jnp.int32(MOVE_INTERVAL),
        ramp=jnp.int32(0),
    )


def step(state: State, action: Any, draws: Draws, ramping: Any) -> tuple[State, Any, Any]:
    """The state after `action`, the reward, and whether the player is lost."""
    state = _spawn_enemy(state, draws)
    state = _spawn_diver(state, draws)
    state = _obey(state, action)
    state, shot_down = _fly_shots(state)
    state = _move_divers(state)
    enemies_before = state.enemies
    state, ran_into_shots = _move_enemies(state)
    torpedoes_before = state.torpedoes
    state = state._replace(torpedoes=_fly(state.torpedoes))
    danger = enemies_before | state.enemies | torpedoes_before | state.torpedoes
    killed = jnp.any(_cell(state.y, state.x) & (danger != 0))
    kills = jnp.sum(shot_down.astype(jnp.int32) + ran_into_shots)
    state, bonus, drowned = _breathe(_count_down(state), ramping)
    return state, (kills + bonus).astype(jnp.float32), killed | drowned


def observe(state: State) -> Any:
    """The board as the agent sees it: (10, 10, 10) bool."""
    column = jnp.arange(SIZE)
    bottom = column[:, None] == SIZE - 1
    fish = _fish(state.enemies)
    subs = _occupied(state.enemies) & ~fish
    channels = (
        _cell(state.y, state.x),
        _cell(state.y, _behind(state.x, state.right)),
        state.shots != 0,
        _trail(state),
        state.torpedoes != 0,
        fish != 0,
        subs != 0,
        bottom & (column < state.oxygen // OXYGEN_PER_CELL),
        bottom & (column >= 9 - state.crew) & (column < 9),
        _diver_cells(state.divers, state.divers.x),
    )
    return jnp.stack(channels, axis=-1)


def _spawn_enemy(state: State, draws: Draws) -> State:
    due = state.enemy_timer == 0
    in_row = jnp.arange(SIZE) == draws.enemy_row
    against_traffic = jnp.any((state.enemies != 0) & (in_row & (state.rightward != draws.enemy_right))[:, None])
    row = in_row & due & ~against_traffic
    newcomer = jnp.where(draws.enemy_is_sub, LOADED, FISH) << FIELD_BITS * state.move_interval
    entry = jnp.arange(SIZE) == _entry(draws.enemy_right)
    return state._replace(
        enemies=state.enemies | jnp.where(row[:, None] & entry, newcomer, 0),
        rightward=jnp.where(row, draws.enemy_right, state.rightward),
        enemy_timer=jnp.where(due, state.spawn_interval, state.enemy_timer),
    )


def _spawn_diver(state: State, draws: Draws) -> State:
    due = state.diver_timer == 0
    newcomer = Divers(jnp.bool_(True), _entry(draws.diver_right), draws.diver_row, draws.diver_right)
    divers = jax.tree.map(lambda two, new: jnp.where(due, jnp.stack([new, two[0]]), two), state.divers, newcomer)
    return state._replace(divers=divers, diver_timer=jnp.where(due, DIVER_INTERVAL, state.diver_timer))


def _obey(state: State, action: Any) -> State:
    fires = (action == FIRE) & (state.shot_timer == 0)
    flag = jnp.where(state.right, EASTBOUND, WESTBOUND)
    dx = jnp.int32(action == RIGHT) - (action == LEFT)
    dy = jnp.int32(action == DOWN) - (action == UP)
    return state._replace(
        x=jnp.clip(state.x + dx, 0, 9),
        y=jnp.clip(state.y + dy, 0, 8),
        right=jnp.where(dx == 0, state.right, dx > 0),
        shots=state.shots | jnp.where(_cell(state.y, state.x) & fires, flag, 0),
        shot_timer=jnp.where(fires, SHOT_INTERVAL, state.shot_timer),
    )


def _fly_shots(state: State) -> tuple[State, Any]:
    """Each bullet takes with it one enemy of the cell it flies into: the oldest fish, else the oldest submarine."""
    shots = _fly(state.shots)
    hit = (shots != 0) & (state.enemies != 0)
    fish = _fish(state.enemies)
    targets = jnp.where(fish != 0, fish, _occupied(state.enemies))
    oldest = targets & -targets
    enemies = jnp.where(hit, state.enemies & ~(oldest * FIELD), state.enemies)
    return state._replace(enemies=enemies, shots=jnp.where(hit, 0, shots)), hit


def _move_divers(state: State) -> State:
    """Divers that meet the player, before or after moving, come on board while there is room, the younger first."""
    divers = state.divers
    due = state.diver_timer % DIVER_PERIOD == 1  # 5, 11, ... steps after a diver came
    x = divers.x + jnp.where(due, jnp.where(divers.right, 1, -1), 0)
    meets = divers.present & (divers.y == state.y) & ((divers.x == state.x) | (x == state.x))
    younger_met = jnp.stack([False, meets[0]])
    boards = meets & (state.crew + younger_met < FULL_CREW)
    present = divers.present & ~boards & (x >= 0) & (x <= 9)
    return state._replace(
        divers=divers._replace(present=present, x=x), crew=state.crew + jnp.sum(boards, dtype=jnp.int32)
    )


def _move_enemies(state: State) -> tuple[State, Any]:
    """Enemies move and shoot; one that swims into a bullet is lost with it, yet still shoots if it was to."""
    rightward = state.rightward[:, None]
    going = state.enemies & FIELD
    entering = jnp.where(rightward, _east(going), _west(going))
    moved = state.enemies >> FIELD_BITS | entering << FIELD_BITS * state.move_interval
    enemies, fires = _run_guns(moved)
    hit = (entering != 0) & (state.shots != 0)
    state = state._replace(
        enemies=jnp.where(hit, enemies & ~(FIELD << FIELD_BITS * state.move_interval), enemies),
        shots=jnp.where(hit, 0, state.shots),
        torpedoes=state.torpedoes | jnp.where(fires, jnp.where(rightward, EASTBOUND, WESTBOUND), 0),
    )
    return state, hit


def _run_guns(enemies: Any) -> tuple[Any, Any]:
    """Every shot timer one lower, or wound up again where it was 0: there the submarine fires."""
    subs = _occupied(enemies) & ~_fish(enemies)
    lowered = enemies - subs
    fires = subs & ~_occupied(lowered)
    return lowered + fires * LOADED, fires != 0


def _count_down(state: State) -> State:
    return state._replace(
        shot_timer=jnp.maximum(state.shot_timer - 1, 0),
        enemy_timer=jnp.maximum(state.enemy_timer - 1, 0),
        diver_timer=jnp.maximum(state.diver_timer - 1, 0),
    )


def _breathe(state: State, ramping: Any) -> tuple[State, Any, Any]:
    """Oxygen sinks under water; arriving at the top costs a diver, or all six for a bonus, or without any the game."""
    below = state.y > 0
    arrives = ~below & ~state.surfaced
    drowned = (state.oxygen <= 0) | (arrives & (state.crew == 0))
    refills = arrives & (state.crew != 0)
    full = refills & (state.crew == FULL_CREW)
    bonus = jnp.where(full, state.oxygen // OXYGEN_PER_CELL, 0)
    state = state._replace(
        oxygen=jnp.where(refills, FULL_OXYGEN, state.oxygen - below),
        surfaced=~below & (state.surfaced | refills),
        crew=jnp.where(full, 0, state.crew) - refills,
    )
    return _speed_up(state, refills & ramping), bonus, drowned


def _speed_up(state: State, wanted: Any) -> State:
    """Spawns come faster with every surfacing, moves with every second one, until both are at their fastest."""
    spawns = wanted & (state.spawn_interval > FASTEST_SPAWN)
    slow = wanted & (state.move_interval > FASTEST_MOVE)
    return state._replace(
        spawn_interval=state.spawn_interval - spawns,
        move_interval=state.move_interval - (slow & (state.ramp % 2 == 1)),
        ramp=state.ramp + (spawns | slow),
    )


def _trail(state: State) -> Any:
    """The cells behind enemies and divers."""
    enemies = state.enemies != 0
    behind_enemies = jnp.where(state.rightward[:, None], _west(enemies), _east(enemies))
    return behind_enemies | _diver_cells(state.divers, _behind(state.divers.x, state.divers.right))


def _diver_cells(divers: Divers, x: Any) -> Any:
    return jnp.any(jax.vmap(_cell)(divers.y, x) & divers.present[:, None, None], axis=0)


def _cell(y: Any, x: Any) -> Any:
    """The board with this cell true; all false where x is off the board."""
    column = jnp.arange(SIZE)
    return (column[:, None] == y) & (column == x)


def _entry(right: Any) -> Any:
    """The column in which whoever moves this way enters the board."""
    return jnp.where(right, 0, SIZE - 1)


def _behind(x: Any, right: Any) -> Any:
    return x - jnp.where(right, 1, -1)


def _fly(bullets: Any) -> Any:
    return _east(bullets & EASTBOUND) | _west(bullets & WESTBOUND)


def _east(board: Any) -> Any:
    """The board moved one column to the right; what crosses the edge is gone."""
    return jnp.pad(board[:, :-1], ((0, 0), (1, 0)))


def _west(board: Any) -> Any:
    return jnp.pad(board[:, 1:], ((0, 0), (0, 1)))


def _occupied(enemies: Any) -> Any:
    """The lowest bit of every field that holds somebody."""
    return (enemies | enemies >> 1 | enemies >> 2 | enemies >> 3) & FIELD_UNITS


def _fish(enemies: Any) -> Any:
    """The lowest bit of every field that holds a fish."""
    return enemies >> 2 & enemies >> 3 & FIELD_UNITS
