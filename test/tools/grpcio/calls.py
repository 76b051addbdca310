"""Calls a gRPC server in the ways that grpcio has, and prints what came of it as JSON. Messages are octets, in base64: no generated code.

Arguments: target, path of a unary method, its message, path of a method that streams its answers, its message, file of the authority or '-'
"""

import base64
import concurrent.futures
import json
import sys

import grpc

target, unary_path, unary_message, stream_path, stream_message, authority = sys.argv[1:]
CALLS = 500
DEADLINE_S = 30


def open_channel():
    if authority == "-":
        return grpc.insecure_channel(target)
    with open(authority, "rb") as file:
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(file.read()))


def code_of(call):
    try:
        call()
        return "OK"
    except grpc.RpcError as error:
        return error.code().name


message = base64.b64decode(unary_message)
with open_channel() as channel:
    ask = channel.unary_unary(unary_path)
    answer, call = ask.with_call(message, timeout=DEADLINE_S, metadata=[("x-caller", "grpcio")])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        at_once = list(pool.map(lambda _: ask(message, timeout=DEADLINE_S), range(CALLS)))
    stream = channel.unary_stream(stream_path)(base64.b64decode(stream_message), timeout=DEADLINE_S)
    streamed = next(stream)
    stream.cancel()
    print(
        json.dumps(
            {
                "answer": base64.b64encode(answer).decode(),
                "code": call.code().name,
                "answered at once": at_once.count(answer),
                "compressed": {
                    how: code_of(lambda: ask(message, timeout=DEADLINE_S, compression=grpc.Compression[how]))
                    for how in ("Gzip", "Deflate")
                },
                "streamed": base64.b64encode(streamed).decode(),
                "cancelled": code_of(lambda: next(stream)),
                "unknown method": code_of(lambda: channel.unary_unary("/no.such/Method")(message, timeout=DEADLINE_S)),
                "no message": code_of(lambda: ask(b"\x0a", timeout=DEADLINE_S)),
            }
        )
    )
