-- What every script begins with: names, limits of numbers, and the kit of shared functions.
--
-- A script is a clock, this file, one algorithm or all of them, and main.lua, composed by
-- script.rs. Its text never changes while a process runs; all that varies is in ARGV.
--
-- Numbers. Lua has doubles, which are exact for integers up to 2^53. So every number here is an
-- integer below that, or HUGE itself, which stands for "more than can be told". For integers
-- below 2^53 `a % b` is exact: a / b is off by less than 1 / b, so its floor is the true one.
--
-- Cost. The whole text runs on every call, and making a function takes as long as ten additions,
-- catching a local of the outside as long as another. So what is rarely needed is made within `kit`
-- and within the functions of `windows`, and these catch nothing.

-- Makers of the algorithms, by number.
local windows = {}

local function kit(us, slack)
  local pack, unpack, byte, format = struct.pack, struct.unpack, string.byte, string.format
  local HUGE = 9007199254740992
  local kit = { us = us, HUGE = HUGE, NEVER = HUGE }

  -- Gives up: main.lua turns it into an error reply, and nothing has been written yet.
  function kit.fault(text)
    error({ fault = text })
  end

  -- The same for a value that could not be read: it is another thing, or the user may not.
  function kit.unreadable(reply)
    local why = type(reply) == 'table' and reply.err
    if why and not string.find(why, 'WRONGTYPE', 1, true) then
      error({ err = why })
    end
    kit.fault('is not a string')
  end

  -- Sums that may pass 2^53 are pairs: high times 2^53, and low.
  function kit.plus(high, low, units)
    if low >= HUGE - units then
      return high + 1, low - (HUGE - units)
    end
    return high, low + units
  end

  function kit.minus(high, low, units)
    if units <= low then
      return high, low - units
    end
    if high <= 0 then
      kit.fault('holds fewer units than its entries')
    end
    return high - 1, low + (HUGE - units)
  end

  -- Quotient and rest of a * b / c, exactly. A quotient that passes 2^53 is only about right, and
  -- not below it.
  function kit.muldiv(a, b, c)
    local product = a * b
    if product < HUGE then
      local rest = product % c
      return (product - rest) / c, rest
    end
    local part = b % c
    local whole = (b - part) / c
    local quotient, rest, bit = 0, 0, HUGE / 2
    while bit >= 1 do
      quotient, rest = quotient * 2, rest * 2
      if rest >= c then
        quotient, rest = quotient + 1, rest - c
      end
      if a >= bit then
        a, quotient = a - bit, quotient + whole
        if rest >= c - part then
          quotient, rest = quotient + 1, rest - (c - part)
        else
          rest = rest + part
        end
      end
      bit = bit / 2
    end
    return quotient, rest
  end

  -- Milliseconds until `ticks` have passed, with the slack, as Redis wants them. Ends at some
  -- three thousand years.
  function kit.ttl(s, ticks)
    return format('%.0f', math.min(math.max(ticks, 0) * s.tick / 1000 + slack, 1e14))
  end

  -- The epoch of a new key: another one than that of a key which was lost.
  function kit.birth(now)
    local low = now % 65536
    return (low + (now - low) / 65536 * 40503) % 65536
  end

  -- Whether the clock has gone back since the key was written; then receipts are void.
  function kit.gone_back(s)
    if s.seen <= s.now then
      return false
    end
    s.epoch = (s.epoch + 1) % 65536
    s.seen = s.now
    s.changed = true
    return true
  end

  -- Algorithms whose state is small keep it in one string, read and written whole:
  --   version B, algorithm B, number of quotas B, epoch I2, latest time seen i6,
  -- then what the algorithm keeps of each quota.
  local SMALL, SMALL_BYTES = '<BBBI2i6', 11

  -- Reads such a string; nil if there is none. `least` is the fewest bytes of a quota's state.
  function kit.load(s, kind, least)
    local value = redis.pcall('GET', s.key)
    if not value or value == '' then
      s.epoch, s.seen, s.stored = kit.birth(s.now), s.now, 0
      return nil
    end
    if type(value) ~= 'string' then
      kit.unreadable(value)
    end
    if byte(value) ~= 1 then
      kit.fault('is of an unknown version')
    end
    if byte(value, 2) ~= kind then
      kit.fault('belongs to another algorithm')
    end
    if #value < SMALL_BYTES then
      kit.fault('is cut short')
    end
    local _, _, stored, epoch, seen = unpack(SMALL, value)
    if stored > 8 or #value < SMALL_BYTES + stored * least then
      kit.fault('is cut short')
    end
    s.epoch, s.seen, s.stored = epoch, seen, stored
    return value, SMALL_BYTES + 1
  end

  -- The write of such a string, to live for `ticks`.
  function kit.store(s, kind, states, ticks)
    local head = pack(SMALL, 1, kind, #states, s.epoch, s.now)
    s.writes = { { 'SET', s.key, head .. table.concat(states), 'PX', kit.ttl(s, ticks) } }
  end

  -- The sum of two counts, which ends at HUGE and stays there until it is forgotten as a whole.
  function kit.add(count, units)
    return math.min(count + units, HUGE)
  end

  -- A count without some units, and how many those were. What cannot be told gives nothing back.
  function kit.take_off(count, units)
    if count >= HUGE then
      return count, 0
    end
    local given = math.min(count, units)
    return count - given, given
  end

  return kit
end
