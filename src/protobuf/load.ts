import { fileURLToPath } from 'node:url';
import { loadSync, type PackageDefinition } from '@grpc/proto-loader';
import { packageRoot } from '../base/package-root.ts';

const protoFolder = fileURLToPath(new URL('proto/', packageRoot));

/**
 * Loads .proto files from the proto/ folder. Messages keep their .proto field names; unset fields have their default,
 * unset messages are null.
 *
 * @param enums  whether enum values are decoded as names, if they have one, or as numbers
 */
export const loadProtos = (files: readonly string[], enums: 'names' | 'numbers'): PackageDefinition =>
  loadSync([...files], {
    keepCase: true,
    longs: Number, // inexact beyond 2^53, where counting stops
    defaults: true,
    includeDirs: [protoFolder],
    ...(enums === 'names' && { enums: String }),
  });
