"""A job that runs with a slot of its tenant, and pays for the tokens that it has used."""

import sys

from weir import Client
from weir.api.callers import post_holds_acquire, post_holds_commit, post_holds_release, post_holds_reserve
from weir.models import (
    AcquireRequest,
    CommitAnswer,
    DescriptorEntry,
    HoldAnswer,
    HoldRequest,
    RateLimitDescriptor,
    RateLimitRequest,
    ReserveAnswer,
)

job = sys.argv[1]


def request(key: str, hits: int = 1) -> RateLimitRequest:
    entries = [DescriptorEntry(key, "acme"), DescriptorEntry("request_id", job)]
    return RateLimitRequest("jobs", [RateLimitDescriptor(entries)], hits)


def run(client: Client) -> None:
    reserved = post_holds_reserve.sync(client=client, body=HoldRequest(request("tokens", 1000)))
    if not isinstance(reserved, ReserveAnswer) or not reserved.reserved:
        sys.exit(f"{job}: no tokens: {reserved}")
    used = 640  # known when the work is done
    committed = post_holds_commit.sync(client=client, body=HoldRequest(request("tokens", used)))
    if not isinstance(committed, CommitAnswer):
        sys.exit(f"{job}: not charged: {committed}")
    print(f"{job}: charged {committed.charged} tokens")


with Client(sys.argv[2], timeout=10) as weir:  # longer than max_delay
    slot = post_holds_acquire.sync(client=weir, body=AcquireRequest(request("tenant"), max_delay="5s"))
    if not isinstance(slot, HoldAnswer) or not slot.held:
        sys.exit(f"{job}: no slot: {slot}")
    try:
        run(weir)
    finally:
        post_holds_release.sync(client=weir, body=HoldRequest(request("tenant")))
