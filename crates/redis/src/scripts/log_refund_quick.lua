-- The fast path of refund and forgive: one key with one quota, and units of one entry. It is one
-- pass that `break` leaves in all other cases. Nothing has been written then, and log.lua runs.
--
-- KEYS, ARGV and reply: see main.lua. Only an operation marked by 64 may run here.
-- Stored: see log.lua and log_blocks.lua.
-- Cost: a GETRANGE of the header, of eight records of the index if there is one, and of a block; a
-- SETRANGE of the header, of the code, and of a record. The first entry, which is what forgiving takes
-- from, needs no index. About a third of the time goes into the codes of the block, 64 bytes on average.
-- Lua copies and hashes what it reads, so reading a whole index would take longer than anything else.

repeat
  local op, units, tick_us, _, window, _, at, epoch = struct.unpack('<BI7I4I7I6I4I7I2', ARGV[i])
  if op ~= 70 and op ~= 73 then
    break
  end
  local key, byte, char = KEYS[i], string.byte, string.char
  local text = redis.pcall('GETRANGE', key, '0', '127')
  if #text < 63 then
    break
  end
  local rest = us % tick_us
  local now = (us - rest) / tick_us
  local magic, span, _, last, lead_epoch, stop_size, open_from, tick, used =
    struct.unpack('<I3I6i6i6I5I6I6i6I7', text)
  local lead = lead_epoch % 16777216
  if magic ~= 84993 or span ~= window or last - lead > now or used > 9007199254740991 then
    break
  end
  if op == 73 then
    at = now - window + 1
  elseif epoch ~= (lead_epoch - lead) / 16777216 then
    break
  end
  if at <= now - window or at > last or used < units or units == 0 then
    break
  end
  local stop, open, pending = stop_size % 16777216, open_from % 65536, open_from % 16777216
  local size, from = (stop_size - stop) / 16777216, (open_from - pending) / 16777216
  pending = (pending - open) / 65536
  local phase = pending - pending % 16
  pending = pending - phase
  if from < 63 or stop > size or size > 65599 or pending > 12 or (#text < 128 and #text ~= size) then
    break
  end
  local tail = string.sub(text, 52, 51 + pending)
  local edit, edit_place, record, record_place

  if at == last and units <= open then
    -- Open units need no code.
    open = open - units
  else
    -- The last record before the tick, from which the search starts. `index` has the records from `first`
    -- to `final`: those where the tick is if entries came evenly, and all if it is not there.
    local place, here, records = from, tick, 0
    local index, first, final = '', 1, 0
    if size > 318 then
      records = stop - 63 + phase
      records = (records - records % 128) / 128
    end
    if records > 0 and at > tick then
      local guess = (at - tick) / (last - tick) * records
      guess = guess - guess % 1
      first, final = guess > 4 and guess - 3 or 1, guess + 4 < records and guess + 4 or records
      local low, high
      while true do
        index = redis.call('GETRANGE', key, size + first * 13 - 13, size + final * 13 - 1)
        if #index ~= (final - first + 1) * 13 then
          break
        end
        low, high = first - 1, final
        while low < high do
          local middle = low + high + 1
          middle = (middle - middle % 2) / 2
          if struct.unpack('<i6', index, (middle - first) * 13 + 1) < at then
            low = middle
          else
            high = middle - 1
          end
        end
        if (low >= first or first == 1) and (low < final or final == records) then
          break
        end
        first, final, low = 1, records, nil
      end
      if not low then
        break
      elseif low > 0 then
        local found, beyond = struct.unpack('<i6I2', index, (low - first) * 13 + 1)
        beyond = 63 + low * 128 - phase + beyond
        if beyond > from then
          place, here = beyond, found
        end
      end
    end
    -- The first entry is at the front, others at most a block behind the record.
    local most = place + (at <= tick and 48 or records > 0 and 160 or 320)
    local codes, is_whole = '', stop <= most
    if place < stop then
      local to = is_whole and stop or most
      codes = to <= #text and string.sub(text, place + 1, to) or redis.call('GETRANGE', key, place, to - 1)
      if #codes ~= to - place then
        break
      end
    end
    if is_whole then
      codes = codes .. (place > stop and string.sub(tail, place - stop + 1) or tail)
    end

    -- The first entry at or after it that has units. Tables of 48 bytes are cheaper than a call for every
    -- code. What comes behind the last code reads as one that is not supported here.
    local padded, count, base, p = codes .. '\253\253\253\253', #codes, 0, 1
    local list = { byte(padded, 1, 48) }
    local there, gap, bytes, before, before_units, before_gap
    while true do
      if p > 44 then
        -- A code has at most five bytes here.
        base, p = base + p - 1, 1
        list = { byte(padded, base + 1, base + 48) }
      end
      -- Entries of one unit and a short gap.
      local passed, code = p, nil
      p = 45
      for at_byte = passed, 44 do
        code = list[at_byte]
        if code > 191 or here >= at then
          p = at_byte
          break
        end
        here = here + code
      end
      if p > passed then
        before, before_units, before_gap = base + p - 1, 1, list[p - 1]
      end
      if p < 45 then
        there, gap, bytes = 1, code, 1
        if code == 255 then
          there, gap = 0, 0
        elseif code == 254 and list[p + 1] < 128 and list[p + 2] < 192 then
          there, gap, bytes = list[p + 1], list[p + 2], 3
        elseif code > 191 then
          if code == 254 then
            there, bytes = list[p + 1], 3
            if there > 127 then
              there, bytes = there - 128 + list[p + 2] * 128, 4
            end
            -- More than two bytes of units are not supported here.
            code = there < 16384 and list[p + bytes - 1] or 253
            gap = code
          end
          if code > 252 or (code == 252 and bytes > 1) then
            there = 0
            break
          elseif code == 252 then
            gap, bytes = list[p + 1] + list[p + 2] * 256 + list[p + 3] * 65536, 4
          elseif code > 191 then
            gap, bytes = 192 + (code - 192) * 256 + list[p + bytes], bytes + 1
          end
          if base + p + bytes - 1 > count then
            there = 0
            break
          end
        end
        if there > 0 and here >= at then
          break
        elseif there > 0 or gap > 0 then
          before, before_units, before_gap = base + p, there, gap
        end
        p, here = p + bytes, here + gap
      end
    end
    p = base + p
    -- A receipt whose entry is gone gives nothing back.
    if there < units or (op == 70 and here > at) then
      break
    end

    local code_place = place + p - 1
    if units < there then
      -- The same number of bytes as before.
      local left = there - units
      local low = left % 128
      edit_place, edit = code_place, there < 128 and char(254, left)
        or char(254, 128 + low, (left - low) / 128)
      if there < 128 ~= (byte(codes, p + 1) < 128) then
        break
      end
    elseif code_place == from then
      -- The first entry: the cursor moves to the next, which must have units.
      from, tick, p = from + bytes, tick + gap, p + bytes
      while byte(codes, p) == 255 do
        from, p = from + 1, p + 1
      end
      local code, second = byte(codes, p, p + 1)
      local is_last = from == stop + pending
      if
        (not code and (not is_last or open == 0) and used > units)
        or (code == 254 and (not second or second % 128 == 0))
      then
        break
      end
    else
      -- The entry before it gets its gap.
      if not before then
        break
      end
      local room
      edit_place, room, gap = place + before - 1, p + bytes - before, before_gap + gap
      edit = ''
      if before_units > 127 then
        local low = before_units % 128
        edit = char(254, 128 + low, (before_units - low) / 128)
      elseif before_units ~= 1 then
        edit = char(254, before_units)
      end
      if gap < 192 then
        edit = edit .. char(gap)
      elseif gap < 15552 then
        local low = (gap - 192) % 256
        edit = edit .. char(192 + (gap - 192 - low) / 256, low)
      elseif gap < 16777216 then
        edit = edit .. struct.pack('<BI3', 252, gap)
      else
        break
      end
      if #edit > room then
        break
      end
      edit = edit .. string.rep('\255', room - #edit)
    end

    -- The record of its block.
    local block = code_place - 63 + phase
    block = (block - block % 128) / 128
    local lower, upper = block > 0 and block or 1, block < records and block + 1 or records
    if edit and lower <= upper and (lower < first or upper > final) then
      first, final = lower, upper
      index = redis.call('GETRANGE', key, size + first * 13 - 13, size + final * 13 - 1)
      if #index ~= (final - first + 1) * 13 then
        break
      end
    end
    if block > 0 and edit and block <= records then
      local beyond = struct.unpack('<I2', index, (block - first) * 13 + 7)
      if 63 + block * 128 - phase + beyond > edit_place then
        break
      end
    end
    if edit and block < records then
      local sum = struct.unpack('<I5', index, (block + 1 - first) * 13 + 9)
      if sum < units then
        break
      elseif sum < 1099511627775 then
        record_place, record = size + block * 13 + 8, struct.pack('<I5', sum - units)
      end
    end
    if edit and edit_place >= stop then
      local into = edit_place - stop
      tail = string.sub(tail, 1, into) .. edit .. string.sub(tail, into + #edit + 1)
      edit = nil
    elseif edit and edit_place + #edit > stop then
      break
    end
  end

  used = used - units
  local state = struct.pack('<i6I5I6I6i6I7c0', last, lead_epoch, stop_size,
    open + (pending + phase) * 65536 + from * 16777216, tick, used, tail)
  if type(redis.pcall('SETRANGE', key, '15', state)) == 'table' then
    break
  end
  if edit then
    redis.call('SETRANGE', key, edit_place, edit)
  end
  if record then
    redis.call('SETRANGE', key, record_place, record)
  end
  reply = struct.pack('<I7I7', us, units)
until true
