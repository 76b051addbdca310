import { ProtoWriter } from '../../../src/protobuf/writer.ts';
import type { HoldRequest, LimitRequest } from './messages.ts';

const writer = new ProtoWriter(); // reused for every message, which is then copied

const NANOS_PER_MS = 1e6;

/** Encodes a RateLimitRequest. */
export const encodeRequest = (request: LimitRequest): Buffer => message(() => writeRequest(request));

/** Encodes a weir.v1.BatchRequest. */
export const encodeBatch = (requests: readonly LimitRequest[]): Buffer =>
  message(() => {
    for (const request of requests) nested(1, () => writeRequest(request));
  });

/** Encodes a request of weir.v1.Holds. */
export const encodeHold = ({ request, maxDelayMs = 0 }: HoldRequest): Buffer =>
  message(() => {
    nested(1, () => writeRequest(request));
    if (maxDelayMs > 0) writeDuration(2, maxDelayMs);
  });

/** Encodes a HealthCheckRequest. */
export const encodeHealthCheck = (service: string): Buffer => message(() => writer.textField(1, service));

function message(write: () => void): Buffer {
  writer.start(0);
  write();
  return Buffer.from(writer.bytes.subarray(0, writer.length));
}

function nested(field: number, write: () => void): void {
  const start = writer.begin(field);
  write();
  writer.end(start);
}

function writeRequest({ domain, descriptors, hits }: LimitRequest): void {
  writer.textField(1, domain);
  for (const entries of descriptors) {
    const descriptor = writer.begin(2);
    for (const [key, value] of entries) {
      const entry = writer.begin(1);
      writer.textField(1, key);
      writer.textField(2, value);
      writer.end(entry);
    }
    if (hits <= 0) writeOwnHits(-hits);
    writer.end(descriptor);
  }
  if (hits > 0) writer.uint32Field(3, hits);
}

/** The hits of a descriptor: 0 reads the counter; a refund has their absolute number and a flag. */
function writeOwnHits(hits: number): void {
  const wrapper = writer.begin(3);
  writer.uintField(1, hits);
  writer.end(wrapper);
  if (hits > 0) writer.smallField(4, 1);
}

function writeDuration(field: number, ms: number): void {
  const start = writer.begin(field);
  writer.uintField(1, Math.floor(ms / 1_000));
  writer.uintField(2, Math.floor((ms % 1_000) * NANOS_PER_MS));
  writer.end(start);
}
