-- The clock of tests: microseconds, as one argument more than there are keys. Only composed under
-- the feature `test-clock`. The server's own clock goes on meanwhile, so that keys outlive what
-- they hold by more than any test lasts.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
if #ARGV > #KEYS then
  us = tonumber(ARGV[#ARGV])
end
local SLACK = 3600000
