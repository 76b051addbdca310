import { CONFIG_TYPE_URL } from '../../src/parts/xds/proto.ts';
import { checkResources } from '../../src/parts/xds/resources.ts';
import { encodedConfig } from '../helpers/control-plane.ts';
import fc from '../helpers/property.ts';

const right = encodedConfig({
  name: 'r',
  domain: 'd',
  descriptors: [
    {
      key: 'k',
      value: 'v',
      rate_limit: { unit: 2, requests_per_unit: 5, name: 'n', replaces: [{ name: 'o' }] },
      metadata: { fields: { a: { string_value: 'b' }, c: { list_value: { values: [{ number_value: 1 }] } } } },
      descriptors: [{ key: 'k2', rate_limit: { unlimited: true } }],
    },
  ],
});

/** Any octets result in rules or in problems. */
function expectTold(value: Uint8Array): void {
  const resources = [{ type_url: CONFIG_TYPE_URL, value: Buffer.from(value) }];
  const checked = checkResources({ type_url: CONFIG_TYPE_URL, resources }, { mergeDomains: false });
  if (checked.ok) expect(checked.packed).toBeDefined();
  else for (const { message } of checked.problems) expect(message).toMatch(/./);
}

test('the unchanged resource is valid', () => {
  const resources = [{ type_url: CONFIG_TYPE_URL, value: right }];
  expect(checkResources({ type_url: '', resources }, { mergeDomains: false })).toMatchObject({ ok: true });
});

test('almost valid resources are loaded or refused', () => {
  const anyChange = fc.record({
    at: fc.nat(right.length - 1),
    by: fc.integer({ min: 0, max: 255 }),
    cut: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(anyChange, { minLength: 1, maxLength: 5 }), (changes) => {
      let bytes = Buffer.from(right);
      for (const { at, by, cut } of changes) {
        if (cut) bytes = bytes.subarray(0, Math.max(at, 1));
        bytes[at % bytes.length] = by;
      }
      expectTold(bytes);
    }),
    { numRuns: 1_200 },
  );
});

test('random octets are loaded or refused', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), expectTold), { numRuns: 500 });
});

/** A message nested in itself, in the field of descriptors, number 3. */
function nested(levels: number): Buffer {
  let bytes = Buffer.from([0x0a, 1, 0x6b]);
  for (let level = 0; level < levels; level++) {
    const length: number[] = [];
    for (let left = bytes.length; ; left >>>= 7) {
      length.push(left > 0x7f ? (left & 0x7f) | 0x80 : left);
      if (left <= 0x7f) break;
    }
    const field = level === levels - 1 ? 0x1a : 0x22;
    bytes = Buffer.concat([Buffer.from([field, ...length]), bytes]);
  }
  return bytes;
}

test('endlessly nested descriptors are refused', () => {
  expectTold(nested(20_000));
});
