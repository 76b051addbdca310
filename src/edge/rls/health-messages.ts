import { ownCopy } from '../../h2/bounds/own-copy.ts';
import { createInterner } from '../../protobuf/interner.ts';
import { ProtoReader, WireType } from '../../protobuf/reader.ts';
import { ProtoWriter } from '../../protobuf/writer.ts';
import type { WatchedStatus } from './health.ts';

/** The messages of proto/grpc/health/v1/health.proto. */
export interface HealthCheckRequest {
  readonly service: string;
}
export interface HealthCheckResponse {
  readonly status: WatchedStatus;
}
export interface HealthListResponse {
  readonly statuses: Readonly<Record<string, HealthCheckResponse>>;
}

const servingStatuses = { SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } as const satisfies Record<
  WatchedStatus,
  number
>;

const reader = new ProtoReader(createInterner());
const writer = new ProtoWriter();

export function readCheckRequest(bytes: Buffer): HealthCheckRequest {
  let service = '';
  reader.open(bytes, 0, bytes.length);
  while (reader.at < bytes.length) {
    const tag = reader.tag();
    if (tag === ((1 << 3) | WireType.LENGTH)) service = reader.text(bytes.length) ?? '';
    else reader.skip(tag);
  }
  return { service };
}

export function readListRequest(bytes: Buffer): object {
  reader.open(bytes, 0, bytes.length);
  while (reader.at < bytes.length) reader.skip(reader.tag());
  return {};
}

export function writeCheckResponse({ status }: HealthCheckResponse): Buffer {
  writer.start(0);
  writer.uint32Field(1, servingStatuses[status]);
  return written();
}

export function writeListResponse({ statuses }: HealthListResponse): Buffer {
  writer.start(0);
  for (const [name, { status }] of Object.entries(statuses)) {
    const entry = writer.begin(1);
    writer.textField(1, name);
    const response = writer.begin(2);
    writer.uint32Field(1, servingStatuses[status]);
    writer.end(response);
    writer.end(entry);
  }
  return written();
}

const written = (): Buffer => ownCopy(writer.bytes, 0, writer.length);
