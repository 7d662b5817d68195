"""The Lua scripts of the Redis store: each is one exchange and leaves no key without a time to live. Times are milliseconds."""

from __future__ import annotations

import hashlib


class Script:
    """A script, and the hash by which a server that has run it knows it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


APPEND = Script("""
local length = redis.call('LLEN', KEYS[1])
local most = tonumber(ARGV[2])
for i = 3, #ARGV do length = redis.call('RPUSH', KEYS[1], ARGV[i]) end
if most > 0 and length > most then
  redis.call('LTRIM', KEYS[1], -most, -1)
  length = most
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return length
""")

CUT = Script("""
if redis.call('LLEN', KEYS[1]) == tonumber(ARGV[1]) then redis.call('DEL', KEYS[1]) end
return 1
""")

PUT_NEW = Script("""
local value = redis.call('GET', KEYS[1])
if value then return value == ARGV[2] and 1 or 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1])
return 1
""")
"""Set a key that does not exist. Sent twice, it succeeds twice: an equal value is its own, since no two are sealed alike."""

REMOVE = Script("""
local value = redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1])
redis.call('DEL', KEYS[1])
return value
""")
"""Delete a key of any type; return its value, for which there may be a file."""

ADD = Script("""
for i = 2, #ARGV do redis.call('SADD', KEYS[1], ARGV[i]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
""")

COUNT = Script("""
local value = redis.call('INCRBY', KEYS[1], ARGV[2])
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return value
""")

ADMIT = Script("""
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local limit, period = tonumber(ARGV[1]), tonumber(ARGV[2])
local start = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local after = start + period / limit
local wait = after - period - now
if wait > 0.001 then return tostring(wait) end
redis.call('SET', KEYS[1], string.format('%.4f', after), 'PX', math.ceil(after - now))
return '0'
""")
"""The algorithm of `bucket.admitted`, with the clock of the server."""

LEASE = Script("""
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1])
return 1
""")

RELEASE = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
""")

SEND = Script("""
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'm', ARGV[3])
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
""")
