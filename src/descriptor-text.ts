/** A descriptor on the command line is not `key=value[,key=value…]`. */
export class InvalidDescriptor extends Error {
  override readonly name = 'InvalidDescriptor';
}

/**
 * Reads a descriptor as people write it. `user=alice,path=/login`: two entries. A value goes to the next comma and may
 * hold further `=`.
 *
 * @throws InvalidDescriptor
 */
export function parseDescriptor(written: string): readonly { readonly key: string; readonly value: string }[] {
  return written.split(',').map((entry) => {
    const equals = entry.indexOf('=');
    if (equals < 1) throw new InvalidDescriptor(`a descriptor must be key=value[,key=value…], got '${written}'`);
    return { key: entry.slice(0, equals), value: entry.slice(equals + 1) };
  });
}
