import { gunzipSync, inflateSync } from 'node:zlib';
import { status } from '../../grpc-status.ts';
import { GrpcError } from './grpc-error.ts';

type Decompress = (bytes: Buffer, options: { maxOutputLength: number }) => Buffer;

const decompressors = new Map<string, Decompress>([
  ['gzip', gunzipSync],
  ['deflate', inflateSync],
]);

/** The most that DEFLATE makes of one octet (RFC 1951): 258 octets a match, two bits a match. */
const MAX_RATIO = 1_032;
/** The last field of a gzip stream is the size of what it holds (RFC 1952, 2.3.1). */
const GZIP_SIZE_BYTES = 4;

/** Whether messages can be compressed in this way. */
export const isEncoding = (name: string): boolean => name === 'identity' || decompressors.has(name);

/** The most octets that a compressed message can unpack to: what a gzip stream says of itself, which `decompress` holds it to. */
export const unpackedBound = (encoding: string, bytes: Buffer, from: number, to: number): number =>
  Math.min(gzipSize(encoding, bytes, from, to) ?? Number.POSITIVE_INFINITY, (to - from) * MAX_RATIO);

const gzipSize = (encoding: string, bytes: Buffer, from: number, to: number): number | undefined =>
  encoding === 'gzip' && to - from >= GZIP_SIZE_BYTES ? bytes.readUInt32LE(to - GZIP_SIZE_BYTES) : undefined;

/**
 * Unpacks a compressed message.
 *
 * @param maxBytes  of the message when it is unpacked
 * @throws GrpcError  RESOURCE_EXHAUSTED: it is larger; INTERNAL: it is not compressed in this way
 */
export function decompress(encoding: string, bytes: Buffer, maxBytes: number): Buffer {
  const unpack = decompressors.get(encoding);
  if (!unpack) throw new GrpcError(status.INTERNAL, 'a message is compressed, but grpc-encoding does not say how');
  const size = gzipSize(encoding, bytes, 0, bytes.length) ?? maxBytes;
  if (size > bytes.length * MAX_RATIO && encoding === 'gzip') throw notCompressed(encoding);
  if (size > maxBytes) throw tooLarge(maxBytes);
  try {
    return unpack(bytes, { maxOutputLength: Math.max(size, 1) });
  } catch (error) {
    const isTooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'; // zlib's errors have a code
    throw isTooLarge && size === maxBytes ? tooLarge(maxBytes) : notCompressed(encoding);
  }
}

const notCompressed = (encoding: string): GrpcError =>
  new GrpcError(status.INTERNAL, `a message cannot be decompressed by ${encoding}`);

const tooLarge = (maxBytes: number): GrpcError =>
  new GrpcError(status.RESOURCE_EXHAUSTED, `a message may have ${maxBytes} bytes at most when it is decompressed`);
