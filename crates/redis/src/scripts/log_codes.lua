-- The encoding of log entries: the units of an entry, and the gap in ticks to the next one. The
-- bytes are the same as in crates/core/src/window/log/code.rs; conformance/golden/log-codes.txt
-- checks both.
--
-- KEYS, ARGV, stored and reply: see log.lua.
-- Cost: a code of one byte is cheap; the others take a call or two.

local function log_codes(kit)
  local HUGE = kit.HUGE
  local byte, char, pack, unpack = string.byte, string.char, struct.pack, struct.unpack
  local codes = {}

  -- Encodes an entry, with the same bytes as crates/core/src/window/log/code.rs. With `room`, the
  -- code has exactly that many bytes: those of the units are padded.
  function codes.write(units, gap, room)
    local head = ''
    if gap < 0 then
      kit.fault('has ticks out of order')
    end
    if units ~= 1 or room then
      head = char(254)
      local bytes = room and room - 1 - #codes.write(1, gap) or 1
      while units >= 128 or bytes > 1 do
        local low = units % 128
        head = head .. char(128 + low)
        units, bytes = (units - low) / 128, bytes - 1
      end
      head = head .. char(units)
    end
    if gap < 192 then
      return head .. char(gap)
    elseif gap < 15552 then
      local low = (gap - 192) % 256
      return head .. char(192 + (gap - 192 - low) / 256, low)
    elseif gap < 16777216 then
      return head .. char(252) .. pack('<I3', gap)
    end
    return head .. char(253) .. pack('<I6', gap)
  end

  -- Returns units, gap and length of the code at character `at` of a text that contains it
  -- completely.
  function codes.read(text, at)
    local units, first, from = 1, byte(text, at), at
    if first == 254 then
      local place = 1
      units = 0
      repeat
        at = at + 1
        first = byte(text, at)
        if not first or place >= HUGE then
          kit.fault('has a damaged code')
        end
        units, place = units + first % 128 * place, place * 128
      until first < 128
      at = at + 1
      first = byte(text, at)
    end
    if first and first < 192 and units < HUGE then
      return units, first, at - from + 1
    end
    local bytes = first and first >= 192 and (first < 252 and 1 or first == 252 and 3 or first == 253 and 6)
    if not bytes or #text < at + bytes or units >= HUGE then
      kit.fault('has a damaged code')
    elseif bytes == 1 then
      return units, 192 + (first - 192) * 256 + byte(text, at + 1), at - from + 2
    end
    local gap = unpack(bytes == 3 and '<I3' or '<I6', text, at + 1)
    return units, gap, at - from + 1 + bytes
  end

  return codes
end
