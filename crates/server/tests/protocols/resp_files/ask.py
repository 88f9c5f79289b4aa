"""Asks as a user of redis-py would, in both versions of the protocol."""

import sys

import redis

port = int(sys.argv[1])
for protocol in (2, 3):
    client = redis.Redis(port=port, protocol=protocol, decode_responses=True, socket_timeout=10)
    assert client.ping()
    key = f"python{protocol}"

    def check(*extra):
        return client.execute_command("SG.CHECK", "api", key, *extra)

    assert check() == [1, 3, 2, 0, 60000], check()
    assert check("COST", 2) == [1, 3, 0, 0, 60000]
    assert check() == [0, 3, 0, 60000, 60000]
    assert client.execute_command("CL.THROTTLE", key, 15, 30, 60, 1) == [0, 16, 15, -1, 2]

    pipe = client.pipeline(transaction=False)
    for _ in range(5):
        pipe.execute_command("SG.CHECK", "api", f"{key} piped")
    allowed = [answer[0] for answer in pipe.execute()]
    assert allowed == [1, 1, 1, 0, 0], allowed

    # A pipeline is a transaction by default.
    pipe = client.pipeline()
    for _ in range(5):
        pipe.execute_command("SG.CHECK", "api", f"{key} transaction")
    allowed = [answer[0] for answer in pipe.execute()]
    assert allowed == [1, 1, 1, 0, 0], allowed

    try:
        client.execute_command("SG.CHECK", "nothing", key)
    except redis.ResponseError as error:
        assert "nothing" in str(error), error
    else:
        raise AssertionError("a policy that is not there was asked")
    client.close()
print("asked")
