"""Writes a key set to a folder, and prints a valid token and several invalid ones."""

import json
import pathlib
import sys
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

folder = pathlib.Path(sys.argv[1])
key, other = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
public.update({"kid": "one", "alg": "RS256", "use": "sig"})
(folder / "jwks.json").write_text(json.dumps({"keys": [public]}))
now = int(time.time())
good = {"iss": "https://issuer.example", "aud": "guard", "sub": "alice", "exp": now + 600}


def sign(claims, with_key=key, algorithm="RS256", kid="one"):
    return jwt.encode(claims, with_key, algorithm=algorithm, headers={"kid": kid})


tokens = {
    "good": sign(good),
    "expired": sign({**good, "exp": now - 600}),
    "early": sign({**good, "nbf": now + 600}),
    "other issuer": sign({**good, "iss": "https://evil.example"}),
    "other audience": sign({**good, "aud": "other"}),
    "no subject": sign({name: value for name, value in good.items() if name != "sub"}),
    "other key": sign(good, with_key=other),
    "unknown key": sign(good, kid="two"),
    "shared secret": sign(good, with_key="x" * 32, algorithm="HS256"),
    "unsigned": jwt.encode(good, None, algorithm="none", headers={"kid": "one"}),
    "nonsense": "a.b.c",
}
print(json.dumps(tokens))
