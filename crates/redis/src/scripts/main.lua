-- main: checks all keys, then takes from all or from none, then writes, then replies.
--
-- KEYS: one for each ask, in one slot, no key twice.
-- ARGV: one for each key, packed as described below. (A test clock comes last.)
-- Stored: see the algorithms. While a key is blocked, it holds the end of the block, which no fast path
-- takes for a state. Its state is then stored under the same name followed by ;b. Nothing is written
-- before everything has been checked and packed, so that a fault leaves all keys unchanged.
-- Reply: one string. The server's microseconds I7, then for each key
--   a decision (check, shadow, peek, lease, at most): 0 for denied, 1 for allowed, 2 for allowed and taken,
--     3 for blocked B; for each quota units that count I7 (2^53 for more: then how often 2^53 B, and the rest I7,
--     follow), if not taken ticks until the cost passes I7 (2^53 for never), ticks until more units
--     become available I7; if taken, tick I7 and epoch I2, and for a lease and at most units I7;
--   units given back or recorded (refund, forgive, charge): I7, at most 2^53;
--   1 if there was a state (reset) or a block (block, unblock), otherwise 0: B;
--   a page of entries (history): number I4, tick i7 and units I7 of each, and 1 if there are more B.
-- Or an error that begins with SLIDEGATE, for values of another program and for invalid asks.
-- Cost: one TIME, and what the algorithm says for each key.

-- The operations. 2 is a check in shadow mode. Adding 64 permits the fast path to reply.
local CHECK, PEEK, LEASE, CHARGE, REFUND, RESET, HISTORY = 1, 3, 4, 5, 6, 7, 8
local FORGIVE, AT_MOST, BLOCK, UNBLOCK = 9, 10, 11, 12

-- An ask: operation, units; microseconds of a tick, limit and window of the first quota, the
-- algorithm's parameter; tick and epoch; algorithm, number of quotas, ticks to keep entries for.
-- Limit and window of the other quotas follow. A charge has its age in place of the tick and the
-- number of further charges in place of the epoch. These come last, each with units and age, and all
-- are in order, oldest first. A block has its ticks in place of the units.
local ASK, ASK_BYTES = '<BI7I4I7I6I4I7I2BBI6', 46
local QUOTA, QUOTA_BYTES = '<I7I6', 13
local CHARGE_FORM, CHARGE_BYTES = '<I7I6', 13

local pack, unpack = struct.pack, struct.unpack
local kit = make_kit(us, SLACK)
local HUGE = kit.HUGE
local made = {}

local function window_of(kind)
  if not made[kind] then
    if not windows[kind] then
      kit.fault('is asked for by an algorithm that this script has not')
    end
    made[kind] = windows[kind](kit)
  end
  return made[kind]
end

local function read_ask(i)
  local s = { key = KEYS[i], limits = {}, windows = {} }
  local kind
  s.argument = ARGV[i]
  s.op, s.units, s.tick, s.limits[1], s.windows[1], s.param, s.at, s.of, kind, s.count, s.keep =
    unpack(ASK, ARGV[i])
  s.op = s.op % 64
  for quota = 2, s.count do
    local at = ASK_BYTES + 1 + (quota - 2) * QUOTA_BYTES
    s.limits[quota], s.windows[quota] = unpack(QUOTA, ARGV[i], at)
  end
  local rest = us % s.tick
  s.now = (us - rest) / s.tick
  s.date = rest > 0 and s.now + 1 or s.now
  s.window = window_of(kind)
  return s
end

-- Returns the name under which the state of a blocked key is stored.
local function state_key_of_blocked(key)
  return table.concat({ key, ';b' })
end

-- Opens the state of a key, blocked or not.
local function open(s)
  local opened, problem = pcall(s.window.open, s)
  if not opened and type(problem) == 'table' and problem.block then
    s.home, s.key, s.block_end = s.key, state_key_of_blocked(s.key), problem.block
    s.block_left = math.max(s.block_end - s.now, 0)
    opened, problem = pcall(s.window.open, s)
  end
  s.unreadable = not opened
  if not opened and s.op ~= RESET then
    error(problem, 0)
  end
end

-- Returns true if a block applies now. The next write removes one that has ended.
local function is_blocked(s)
  return s.home and s.block_left > 0
end

-- Sets whether the units pass every quota, and the waits until they do.
local function check(s, units)
  s.waits, s.fits = {}, not is_blocked(s)
  for i = 1, s.count do
    s.waits[i] = math.max(s.window.retry(s, s.quotas[i], units), s.block_left or 0)
    s.fits = s.fits and s.waits[i] == 0
  end
end

-- Takes the units.
local function take(s, date, units, how)
  s.taken, s.changed = units, true
  s.taken_at = how(s, date, units)
end

-- Returns the units that fit now, at most as many as requested.
local function room(s)
  local units = s.units
  for i = 1, s.count do
    local high, low = s.window.used(s, s.quotas[i])
    units = math.min(units, high > 0 and 0 or math.max(s.limits[i] - low, 0))
  end
  return units
end

local function at_most(s)
  local units = room(s)
  check(s, math.max(units, 1))
  if s.fits then
    take(s, s.date, units, s.window.take)
  end
end

local function lease(s)
  if not s.window.take_ahead then
    kit.fault('is asked for a lease, which only log and gcra have')
  end
  local least, units = math.max(s.at, 1), room(s)
  check(s, least)
  s.fits = units >= least and not is_blocked(s)
  if s.fits then
    take(s, s.date + s.of, units, s.window.take_ahead)
  end
end

-- Records units that were admitted elsewhere, up to a window ago, whether they fit or not. Returns
-- how many still count.
local function charge(s)
  local units, age, recorded = s.units, s.at, 0
  local at = ASK_BYTES + 1 + (s.count - 1) * QUOTA_BYTES
  for further = 0, s.of do
    if further > 0 then
      units, age = unpack(CHARGE_FORM, s.argument, at)
      at = at + CHARGE_BYTES
    end
    if s.date - age > s.now - s.keep then
      s.window.charge(s, s.date - age, units, s.of == 0)
      recorded, s.changed = kit.add(recorded, units), true
    end
  end
  return recorded
end

local function refund(s)
  if s.of ~= s.epoch then
    return 0
  end
  local given = s.window.give_back(s, s.at, s.units)
  s.changed = s.changed or given > 0
  return given
end

local function forgive(s)
  local given = s.window.forgive(s, s.units)
  s.changed = s.changed or given > 0
  return given
end

-- Empties a key; it is gone in a moment.
local function empty(key)
  return { 'SET', key, '', 'PX', '1' }
end

-- Writes the whole state under another name.
local function move_to(s, name)
  s.moved, s.lives, s.changed = true, -1, false
  s.window.save(s)
  s.writes[1][2] = name
end

local function has_state(s)
  return s.changed or (s.stored or s.size) > 0
end

local function block(s)
  local was_blocked = is_blocked(s)
  if not s.home then
    s.home = s.key
    if has_state(s) then
      move_to(s, state_key_of_blocked(s.key))
    end
  end
  s.block_left = s.date - s.now + s.units
  s.block_end = s.date + s.units
  s.holds = true
  return was_blocked
end

local function unblock(s)
  local was_blocked = is_blocked(s)
  s.lifted = s.home ~= nil
  return was_blocked or false
end

local function reset(s)
  if s.unreadable then
    -- Damaged, or not ours: empty now, and gone in a moment.
    s.changed, s.writes = false, { empty(s.key), s.home and empty(s.home) }
    return true
  end
  local found = unblock(s)
  found = s.window.forget(s) or found
  -- What remains is the epoch, so that receipts from before find nothing. A key that is not
  -- there gets a new one anyway.
  if found or s.changed then
    s.epoch, s.changed = (s.epoch + 1) % 65536, true
  end
  return found
end

local function decision(s)
  local outcome = s.taken and 2 or s.allowed and 1 or is_blocked(s) and 3 or 0
  local parts = { pack('<B', outcome) }
  for i = 1, s.count do
    local high, low = s.window.used(s, s.quotas[i])
    local used_bytes = pack('<I7', low)
    if low >= HUGE then
      used_bytes = pack('<I7BI7', HUGE, 1, 0)
    elseif high > 0 then
      used_bytes = pack('<I7BI7', HUGE, math.min(high, 255), low)
    end
    local wait_bytes = s.taken and '' or pack('<I7', s.waits[i])
    local reset_in = math.max(s.window.reset(s, s.quotas[i]), s.block_left or 0)
    parts[i + 1] = used_bytes .. wait_bytes .. pack('<I7', reset_in)
  end
  if s.taken then
    parts[#parts + 1] = pack('<I7I2', s.taken_at, s.epoch)
    parts[#parts + 1] = (s.op == LEASE or s.op == AT_MOST) and pack('<I7', s.taken) or ''
  end
  return table.concat(parts)
end

-- Runs the operation of an ask after all have been checked. Returns its part of the reply.
local function act(s, blocked)
  local op = s.op
  if op == CHARGE then
    return pack('<I7', charge(s))
  elseif op == REFUND then
    return pack('<I7', refund(s))
  elseif op == FORGIVE then
    return pack('<I7', forgive(s))
  elseif op == RESET then
    return pack('<B', reset(s) and 1 or 0)
  elseif op == BLOCK then
    return pack('<B', block(s) and 1 or 0)
  elseif op == UNBLOCK then
    return pack('<B', unblock(s) and 1 or 0)
  elseif op == HISTORY then
    if not s.window.history then
      kit.fault('is asked for its history, which only log keeps')
    end
    return s.window.history(s)
  elseif op == LEASE then
    lease(s)
  elseif op == AT_MOST then
    at_most(s)
  elseif s.fits and not blocked and op ~= PEEK then
    take(s, s.date, s.units, s.window.take)
  end
  -- In shadow mode the reply depends on the key's own quotas only: other keys do not block it.
  s.allowed = s.fits and not (blocked and op == CHECK)
  return decision(s)
end

-- What is written for a key that is or was blocked. The block outlives the state.
local function save_blocked(s)
  local ended = s.lifted or (s.changed and s.block_left == 0)
  if ended and has_state(s) then
    move_to(s, s.home)
    s.writes[2] = empty(s.key)
  elseif ended then
    s.writes = { empty(s.home) }
  elseif s.changed then
    s.window.save(s)
    s.holds = true
  end
  if s.holds then
    local ttl = kit.ttl(s, s.block_left + 2 * s.keep)
    for _, write in ipairs(s.writes or {}) do
      if write[1] == 'SET' and write[4] == 'PX' then
        ttl = math.max(ttl, write[5] + s.block_left * s.tick / 1000)
      end
    end
    s.writes = s.writes or {}
    s.writes[#s.writes + 1] =
      { 'SET', s.home, pack('<BI7', 2, s.block_end), 'PX', string.format('%.0f', ttl) }
  end
end

local function run()
  local asks, named, blocked = {}, {}, false
  for i = 1, #KEYS do
    local s = read_ask(i)
    if named[s.key] then
      kit.fault('is named twice')
    end
    named[s.key], asks[i] = true, s
    open(s)
    if s.op <= PEEK then
      check(s, s.units)
      blocked = blocked or (s.op == CHECK and not s.fits)
    end
  end
  local replies = { pack('<I7', us) }
  for i, s in ipairs(asks) do
    replies[i + 1] = act(s, blocked)
  end
  for _, s in ipairs(asks) do
    if s.home then
      save_blocked(s)
    elseif s.changed then
      s.window.save(s)
    end
  end
  for _, s in ipairs(asks) do
    for _, write in ipairs(s.writes or {}) do
      redis.call(_G.unpack(write))
    end
  end
  return table.concat(replies)
end

local done, reply = pcall(run)
if done then
  return reply
end
if type(reply) == 'table' and reply.fault then
  return redis.error_reply(string.format('SLIDEGATE the key %s', reply.fault))
end
-- An error of the server, caught, is its text or has it as `err`. The text begins with a code, which
-- raising it once more would hide behind another: the client has to distinguish a replica from a defect.
local text = type(reply) == 'table' and reply.err
  or type(reply) == 'string' and string.match(reply, '^%u+ .*')
if text then
  return redis.error_reply(text)
end
-- Never runs: all other errors are defects of the scripts.
error(reply)
