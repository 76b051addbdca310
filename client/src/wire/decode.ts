import { fieldTag, LENGTH, nested, open, readDuration, reader, readText, VARINT } from './fields.ts';
import {
  type Reply,
  type ReplyCode,
  type ResponseHeader,
  replyCodes,
  type Status,
  type StatusLimit,
  units,
  windowLengthMs,
} from './messages.ts';
import { readStruct } from './struct.ts';

/** The gRPC status UNKNOWN. */
const STATUS_UNKNOWN = 2;

/** Decodes a RateLimitResponse. Throws a RangeError if it is malformed. */
export function decodeReply(bytes: Buffer): Reply {
  reader.open(bytes, 0, bytes.length);
  return readReply(bytes.length);
}

/** The answer to one request of a batch: a reply, or a gRPC status if it failed. */
export type BatchItem = { readonly reply: Reply } | { readonly status: number; readonly message: string };

/** Decodes a weir.v1.BatchResponse. Throws a RangeError if it is malformed. */
export function decodeBatch(bytes: Buffer): readonly BatchItem[] {
  const items: BatchItem[] = [];
  open(bytes, (tag) => {
    if (tag === fieldTag(1, LENGTH)) items.push(readItem());
    else reader.skip(tag);
  });
  return items;
}

function readItem(): BatchItem {
  let item: BatchItem = { status: STATUS_UNKNOWN, message: 'an answer without an outcome' };
  nested((tag) => {
    if (tag === fieldTag(1, LENGTH)) item = readItemReply();
    else if (tag === fieldTag(2, LENGTH)) item = readItemStatus();
    else reader.skip(tag);
  });
  return item;
}

function readItemReply(): BatchItem {
  const end = reader.length();
  const reply = readReply(end);
  reader.close(end);
  return { reply };
}

function readItemStatus(): BatchItem {
  let status = STATUS_UNKNOWN;
  let message = '';
  nested((tag) => {
    if (tag === fieldTag(1, VARINT)) status = reader.uint32();
    else if (tag === fieldTag(2, LENGTH)) message = readText();
    else reader.skip(tag);
  });
  return { status, message };
}

/** Whether a HealthCheckResponse says SERVING. */
export function decodeServing(bytes: Buffer): boolean {
  let status = 0;
  open(bytes, (tag) => {
    if (tag === fieldTag(1, VARINT)) status = reader.uint32();
    else reader.skip(tag);
  });
  return status === 1;
}

function readReply(end: number): Reply {
  let code: ReplyCode = 'UNKNOWN';
  const statuses: Status[] = [];
  const headers: ResponseHeader[] = [];
  let body: string | undefined;
  let detail: Reply['detail'];
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === fieldTag(1, VARINT)) code = readCode();
    else if (tag === fieldTag(2, LENGTH)) statuses.push(readStatus());
    else if (tag === fieldTag(3, LENGTH)) headers.push(readHeader());
    else if (tag === fieldTag(5, LENGTH)) body = readText();
    else if (tag === fieldTag(6, LENGTH)) detail = readDetail(readStruct(reader));
    else reader.skip(tag);
  }
  return { code, statuses, headers, body, detail };
}

/** Weir's part of the dynamic metadata. */
export function readDetail(metadata: Readonly<Record<string, unknown>>): Reply['detail'] {
  const { weir } = metadata;
  return typeof weir === 'object' && weir !== null ? (weir as Reply['detail']) : undefined; // an object, as just checked
}

const readCode = (): ReplyCode => replyCodes[reader.uint32()] ?? 'UNKNOWN';

function readStatus(): Status {
  let code: ReplyCode = 'UNKNOWN';
  let limit: StatusLimit | undefined;
  let remaining = 0;
  let resetMs: number | undefined;
  nested((tag) => {
    if (tag === fieldTag(1, VARINT)) code = readCode();
    else if (tag === fieldTag(2, LENGTH)) limit = readLimit();
    else if (tag === fieldTag(3, VARINT)) remaining = reader.uint32();
    else if (tag === fieldTag(4, LENGTH)) resetMs = readDuration();
    else reader.skip(tag);
  });
  return { code, limit, remaining, resetMs };
}

function readLimit(): StatusLimit {
  let name = '';
  let requestsPerUnit = 0;
  let unit = 0;
  let multiplier = 1;
  nested((tag) => {
    if (tag === fieldTag(1, VARINT)) requestsPerUnit = reader.uint32();
    else if (tag === fieldTag(2, VARINT)) unit = reader.uint32();
    else if (tag === fieldTag(3, LENGTH)) name = readText();
    else if (tag === fieldTag(4, LENGTH)) multiplier = readWrapper();
    else reader.skip(tag);
  });
  return { name, requestsPerUnit, windowMs: windowLengthMs(units[unit]?.[1], multiplier) };
}

function readHeader(): ResponseHeader {
  let key = '';
  let value = '';
  nested((tag) => {
    if (tag === fieldTag(1, LENGTH)) key = readText();
    else if (tag === fieldTag(2, LENGTH)) value = readText();
    else reader.skip(tag);
  });
  return { key, value };
}

function readWrapper(): number {
  let value = 0;
  nested((tag) => {
    if (tag === fieldTag(1, VARINT)) value = reader.uint32();
    else reader.skip(tag);
  });
  return value;
}
